#include "cudart/binary/code_file.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace coalesce::cudart {

CodeFile read_code_file(const std::string& folder, const std::string& key) {
    CodeFile file;
    if (folder.empty()) return file;
    std::ifstream in(folder + "/" + key + ".code");
    for (std::string line; std::getline(in, line) && !line.empty();) {
        std::istringstream words(line);
        std::string what, name;
        words >> what >> name;
        if (what == "registers") {
            words >> file.registers[name];
        } else if (what == "function") {
            words >> file.functions[name];
        } else if (what == "parameters") {
            for (std::string word; words >> word;) {
                std::istringstream parts(word);
                DeclaredParameter p;
                std::string bytes;
                std::getline(parts, p.name, ':');
                std::getline(parts, bytes, ':');
                std::getline(parts, p.type, ':');
                p.restricted = !parts.eof();
                p.item_bytes = uint32_t(std::strtoul(bytes.c_str(), nullptr, 10));
                file.parameters[name].push_back(p);
            }
        } else if (what == "shared" || what == "device") {
            analysis::ArrayShape& shape = (what == "shared" ? file.shared : file.device)[name];
            std::string extents;
            words >> shape.item_bytes >> extents >> std::ws;
            std::getline(words, shape.type);
            std::istringstream parts(extents);
            for (std::string extent; std::getline(parts, extent, ',');)
                shape.shape.push_back(std::strtoll(extent.c_str(), nullptr, 10));
        } else if (what == "reason") {
            file.reason = line.substr(7);
        }
    }
    file.listing.assign(std::istreambuf_iterator<char>(in), {});
    return file;
}

}  // namespace coalesce::cudart
