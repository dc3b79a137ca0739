// The table of the handlers of memory instructions, from which decoders choose. MemoryHandlers
// (engine.hpp) describes its entries.
//
// A handler is a template over `watch`, which says what it announces to observers. So there are
// three tables for each instruction set of the host: one for each value of Watch. A file that is
// compiled for one instruction set (handlers/table.cpp) makes them.
#pragma once

#include "sim/handlers/arithmetic/multiply_chain.hpp"
#include "sim/handlers/matrix/memory.hpp"
#include "sim/handlers/matrix/warpgroup.hpp"
#include "sim/handlers/memory/async_copy.hpp"
#include "sim/handlers/memory/mbarrier.hpp"
#include "sim/handlers/memory/memory_ops.hpp"
#include "sim/handlers/memory/memory_words.hpp"
#include "sim/handlers/memory/tensor_copy.hpp"
#include "sim/handlers/memory/texture.hpp"

namespace coalesce::sim::COALESCE_ISA {

template <Watch watch>
consteval MemoryHandlers memory_handlers() {
    using enum ptx::Space;
    // Products of warpgroups are announced only to observers that listen to faults.
    constexpr Watch faults_only = watch == Watch::faults ? Watch::faults : Watch::nothing;
    constexpr auto L = Access::load, S = Access::store, A = Access::atomic, R = Access::reduction;
    return {{{&access_memory<watch, global, L>, &access_memory<watch, global, S>,
              &access_memory<watch, global, A>, &access_memory<watch, global, R>},
             {&access_memory<watch, shared, L>, &access_memory<watch, shared, S>,
              &access_memory<watch, shared, A>, &access_memory<watch, shared, R>},
             {&access_memory<watch, local, L>, &access_memory<watch, local, S>, nullptr, nullptr},
             {&access_memory<watch, param, L>, nullptr, nullptr, nullptr},
             {&access_generic<watch, L>, &access_generic<watch, S>, &access_generic<watch, A>,
              &access_generic<watch, R>},
             {&access_memory<watch, constant, L>, nullptr, nullptr, nullptr}},
            {{{&access_words<watch, global, L, 1>, &access_words<watch, global, L, 2>,
               &access_words<watch, global, L, 4>},
              {&access_words<watch, global, S, 1>, &access_words<watch, global, S, 2>,
               &access_words<watch, global, S, 4>}},
             {{&access_words<watch, shared, L, 1>, &access_words<watch, shared, L, 2>,
               &access_words<watch, shared, L, 4>},
              {&access_words<watch, shared, S, 1>, &access_words<watch, shared, S, 2>,
               &access_words<watch, shared, S, 4>}}},
            &load_parameter,
            &load_bank<watch>,
            &async_copy<watch>,
            &async_commit,
            &async_wait<watch>,
            &fence<watch>,
            &mbarrier_update<watch>,
            &mbarrier_wait<watch>,
            &bulk_copy_to_shared<watch>,
            &bulk_copy_to_global<watch>,
            &box_to_shared<watch>,
            &box_to_global<watch>,
            {&fetch_texture<watch>, &gather_texture<watch>},
            {&load_surface<watch>, &store_surface<watch>},
            &warpgroup_product<faults_only>,
            watch == Watch::faults ? &warpgroup_commit : nullptr,
            watch == Watch::faults ? &warpgroup_wait : nullptr,
            watch == Watch::nothing ? &multiply_chain : nullptr,
            {&access_matrices<watch, L>, &access_matrices<watch, S>},
            {&access_fragment<watch, L>, &access_fragment<watch, S>}};
}

}  // namespace coalesce::sim::COALESCE_ISA
