// Rounds sizes up.
#pragma once

#include <concepts>
#include <type_traits>

namespace coalesce {

// Returns the smallest multiple of `to` that is at least `n`.
template <std::unsigned_integral N>
[[nodiscard]] constexpr N round_up(N n, std::type_identity_t<N> to) {
    return (n + to - 1) / to * to;
}

}  // namespace coalesce
