// The handlers of memory instructions that decoders choose from, for an observer.
#pragma once

#include "sim/memory_ops.hpp"
#include "sim/memory_words.hpp"

namespace coalesce::sim::COALESCE_ISA {

template <class Observer>
MemoryHandlers memory_handlers() {
    using enum ptx::Space;
    constexpr auto L = Access::load, S = Access::store, A = Access::atomic, R = Access::reduction;
    return {
        {{&access_memory<Observer, global, L>, &access_memory<Observer, global, S>,
          &access_memory<Observer, global, A>, &access_memory<Observer, global, R>},
         {&access_memory<Observer, shared, L>, &access_memory<Observer, shared, S>,
          &access_memory<Observer, shared, A>, &access_memory<Observer, shared, R>},
         {&access_memory<Observer, local, L>, &access_memory<Observer, local, S>, nullptr, nullptr},
         {&access_memory<Observer, param, L>, nullptr, nullptr, nullptr},
         {&access_generic<Observer, L>, &access_generic<Observer, S>, &access_generic<Observer, A>,
          &access_generic<Observer, R>},
         {&access_memory<Observer, constant, L>, nullptr, nullptr, nullptr}},
        {{{&access_global_words<Observer, L, 1>, &access_global_words<Observer, L, 2>,
           &access_global_words<Observer, L, 4>},
          {&access_global_words<Observer, S, 1>, &access_global_words<Observer, S, 2>,
           &access_global_words<Observer, S, 4>}},
         {{&access_shared_words<Observer, L, 1>, &access_shared_words<Observer, L, 2>,
           &access_shared_words<Observer, L, 4>},
          {&access_shared_words<Observer, S, 1>, &access_shared_words<Observer, S, 2>,
           &access_shared_words<Observer, S, 4>}}},
        &load_parameter,
        &load_bank<Observer>,
        &async_copy<Observer>,
        &async_commit,
        &async_wait<Observer>,
        &fence<Observer>};
}

}  // namespace coalesce::sim::COALESCE_ISA
