// Tests that each row of the catalogue has a kernel file that matches the row.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "catalogue/catalogue.hpp"

namespace coalesce::catalogue {
namespace {

std::filesystem::path kernels() { return COALESCE_SOURCE_DIR "/csrc/kernels"; }

std::string text_of(const Variant& v) {
    std::ifstream file(kernels() / v.file);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(Catalogue, FindsByOperationAndName) {
    const Variant* tiled = find("matmul", "tiled");
    ASSERT_NE(tiled, nullptr);
    EXPECT_EQ(tiled->file, "matmul/07_tiled.cu");
    EXPECT_EQ(tiled->rung(), 7u);
    EXPECT_EQ(find("matmul", "Tiled"), nullptr);
    EXPECT_EQ(find("nothing", "tiled"), nullptr);
}

TEST(Catalogue, NamesAreUniqueAndFilesAreListedOnce) {
    std::set<std::pair<std::string_view, std::string_view>> names;
    std::set<std::string> files;
    for (const Variant& v : variants()) {
        EXPECT_TRUE(names.insert({v.operation, v.name}).second) << v.name;
        EXPECT_TRUE(files.insert(std::string(v.file)).second) << v.file;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kernels())) {
        if (entry.path().extension() != ".cu") continue;
        const std::string file = std::filesystem::relative(entry.path(), kernels()).string();
        EXPECT_TRUE(files.contains(file)) << file << " is not in variants.inc";
    }
}

TEST(Catalogue, RungsAscendInEachOperation) {
    std::map<std::string_view, uint32_t> last;
    for (const Variant& v : variants()) {
        EXPECT_GT(v.rung(), last[v.operation]) << v.file;
        last[v.operation] = v.rung();
    }
}

TEST(Catalogue, EveryKernelStartsWithItsIdeaAndHasTheEntry) {
    for (const Variant& v : variants()) {
        const std::string text = text_of(v);
        ASSERT_FALSE(text.empty()) << v.file;
        EXPECT_TRUE(text.starts_with("// ")) << v.file;
        EXPECT_FALSE(v.sentence.empty());
        // Attributes such as __launch_bounds__(256, 2) may precede the name.
        const std::regex entry("extern \"C\" __global__ void\\s(__\\w+__\\([^{;]*\\)\\s+)?" +
                               std::string(v.name) + "\\(");
        EXPECT_TRUE(std::regex_search(text, entry)) << v.file;
    }
}

// Tests that the names in `arguments` are the parameters of the entry, in order.
TEST(Catalogue, ArgumentsAreTheParameters) {
    for (const Variant& v : variants()) {
        const std::string text = text_of(v);
        const size_t open = text.find('(', text.find(" " + std::string(v.name) + "("));
        const std::string list = text.substr(open + 1, text.find(')', open) - open - 1);
        std::string names;
        static const std::regex last_word("(\\w+)\\s*(,|$)");
        for (std::sregex_iterator m(list.begin(), list.end(), last_word), end; m != end; ++m) {
            names += (names.empty() ? "" : " ") + (*m)[1].str();
        }
        EXPECT_EQ(names, v.arguments) << v.file;
    }
}

TEST(Catalogue, KernelsThatTakeATileHaveTheMacro) {
    for (const Variant& v : variants()) {
        const bool macro = text_of(v).find("#ifndef TILE") != std::string::npos;
        EXPECT_EQ(macro, !v.tiles.empty()) << v.file;
    }
}

}  // namespace
}  // namespace coalesce::catalogue
