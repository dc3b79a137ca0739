#include "sim/handlers/comparison.hpp"

#include "sim/program/payload.hpp"

namespace coalesce::sim {

uint8_t take_comparison(Modifiers& modifiers) {
    using namespace relation;
    static constexpr struct {
        Modifier word;
        uint8_t relations;
    } all[] = {
        {"eq", equal},
        {"ne", less | greater},
        {"lt", less},
        {"le", less | equal},
        {"gt", greater},
        {"ge", greater | equal},
        {"lo", less},
        {"ls", less | equal},
        {"hi", greater},
        {"hs", greater | equal},
        {"equ", equal | unordered},
        {"neu", less | greater | unordered},
        {"ltu", less | unordered},
        {"leu", less | equal | unordered},
        {"gtu", greater | unordered},
        {"geu", greater | equal | unordered},
        {"num", less | equal | greater},
        {"nan", unordered},
    };
    for (const auto& one : all) {
        if (modifiers.take(one.word)) return one.relations;
    }
    return 0;
}

}  // namespace coalesce::sim
