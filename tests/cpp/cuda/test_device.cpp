// Tests devices, copies, launches and recovery after faults, with the driver of fake_driver.cpp.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/launch/launch.hpp"
#include "cuda/launch/planned_call.hpp"
#include "cuda/memory/host_memory.hpp"
#include "cuda/memory/pinned.hpp"
#include "cuda/memory/workers.hpp"
#include "cuda/texture.hpp"
#include "errors.hpp"

namespace coalesce::cuda {
namespace {

Device& device(int ordinal = 0) {
    static const bool opened = [] {  // all devices are opened before a test breaks one
        setenv("COALESCE_CUDA_DRIVER", COALESCE_FAKE_DRIVER, 1);
        setenv("FAKE_DRIVER_DEVICES", "3", 1);
        for (int i = 0; i < 3; ++i) Device::get(i);
        return true;
    }();
    (void)opened;
    return Device::get(ordinal);
}

template <class F>
std::string message_of(F&& f) {
    try {
        f();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST(Driver, AMissingLibraryIsAStatus) {
    const Driver driver("libno-such-driver.so.1");
    EXPECT_EQ(driver.status, Driver::Status::no_driver);
    EXPECT_NE(driver.detail.find("libno-such-driver.so.1"), std::string::npos);
}

TEST(Driver, ALibraryThatIsNoDriverIsAStatus) {
    const Driver driver("libm.so.6");
    EXPECT_EQ(driver.status, Driver::Status::no_driver);
    EXPECT_NE(driver.detail.find("cuInit"), std::string::npos);
}

TEST(Driver, NoDeviceIsAStatus) {
    setenv("FAKE_DRIVER_DEVICES", "0", 1);
    EXPECT_EQ(Driver(COALESCE_FAKE_DRIVER).status, Driver::Status::no_device);
    unsetenv("FAKE_DRIVER_DEVICES");
    setenv("FAKE_DRIVER_INIT", "100", 1);
    EXPECT_EQ(Driver(COALESCE_FAKE_DRIVER).status, Driver::Status::no_device);
    setenv("FAKE_DRIVER_INIT", "999", 1);
    EXPECT_EQ(Driver(COALESCE_FAKE_DRIVER).status, Driver::Status::failed);
    unsetenv("FAKE_DRIVER_INIT");
}

TEST(Device, IsDescribed) {
    EXPECT_EQ(device().label(), "cuda:0 (Fake GPU)");
    EXPECT_EQ(device().compute_capability(), std::make_pair(9, 0));
    EXPECT_THROW(Device::get(3), DeviceUnavailable);
}

TEST(Device, CopiesOfAnySizeArrive) {
    const size_t slot = Transfers::slot_bytes;
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{1000}, Staging::direct_down, Staging::direct_up + 1,
          slot / 8 + 3, slot - 1, slot, slot + 1, 9 * slot + 12345, 20 * slot}) {
        std::vector<uint8_t> sent(bytes), received(bytes, 0xEE);
        for (size_t i = 0; i < bytes; ++i) sent[i] = static_cast<uint8_t>(i * 7 + i / 251);
        const auto memory = device().allocate(bytes, "test");
        device().to_device(memory->address(), sent.data(), bytes, nullptr);
        device().prefault(received.data(), bytes);
        device().to_host(received.data(), memory->address(), bytes, nullptr);
        EXPECT_EQ(sent, received) << bytes << " bytes";
    }
}

TEST(Device, PinnedMemoryIsCopiedDirectly) {
    constexpr size_t bytes = 3 * Transfers::slot_bytes + 5;
    const PinnedMemory sent(device(), bytes), received(device(), bytes);
    for (size_t i = 0; i < bytes; ++i) sent.data()[i] = static_cast<std::byte>(i * 7 + i / 251);
    const auto memory = device().allocate(bytes, "test");
    device().to_device(memory->address(), sent.data(), bytes, nullptr);
    device().to_host(received.data(), memory->address(), bytes, nullptr);
    EXPECT_EQ(std::memcmp(sent.data(), received.data(), bytes), 0);
}

TEST(Device, PinningTooMuchSaysHowMuch) {
    const std::string message =
        message_of([] { const PinnedMemory memory(device(), size_t{2} << 30); });
    EXPECT_NE(message.find("pinning 2147483648 bytes"), std::string::npos) << message;
}

TEST(Device, FillsMemoryAndOrdersStreams) {
    const auto memory = device().allocate(100, "test");
    device().fill(memory->address(), 0xAB, 100, nullptr);
    device().order(nullptr, reinterpret_cast<Stream>(2));
    std::vector<uint8_t> received(100);
    device().to_host(received.data(), memory->address(), 100, nullptr);
    EXPECT_EQ(received, std::vector<uint8_t>(100, 0xAB));
}

TEST(Device, MemoryOfAnotherStreamIsNotReusedBeforeItsWorkEnds) {
    void* none[] = {nullptr};
    Function endless(device(), "image", "endless"), end(device(), "image", "end");
    constexpr size_t bytes = 12345678;  // a size class that no other test uses
    auto memory = device().allocate(bytes, "test");
    const Address address = memory->address();
    memory->used_elsewhere();
    launch(endless, {}, none, nullptr);
    memory.reset();  // this does not wait for the GPU
    EXPECT_NE(device().allocate(bytes, "test")->address(), address);
    launch(end, {}, none, nullptr);
    const auto first = device().allocate(bytes, "test"), second = device().allocate(bytes, "test");
    EXPECT_TRUE(first->address() == address || second->address() == address);
}

TEST(Device, OutOfMemorySaysHowMuchIsFree) {
    const std::string message =
        message_of([] { auto memory = device().allocate(size_t{3} << 30, "argument `x`"); });
    EXPECT_NE(message.find("argument `x` needs 3072 MiB"), std::string::npos) << message;
    EXPECT_NE(message.find("free of 1024 MiB"), std::string::npos) << message;
}

TEST(Launch, RunsTheKernelWithItsArguments) {
    Function scale(device(), "image", "scale");
    std::vector<float> x(100);
    std::iota(x.begin(), x.end(), 0.0f);
    const auto memory = device().allocate(400, "x");
    device().to_device(memory->address(), x.data(), 400, nullptr);
    Address address = memory->address();
    float factor = 3;
    int n = 50;
    void* arguments[] = {&address, &factor, &n};
    launch(scale, {}, arguments, nullptr);
    device().to_host(x.data(), memory->address(), 400, nullptr);
    EXPECT_EQ(x[49], 147.0f);
    EXPECT_EQ(x[50], 50.0f);

    const Timing timing = time(scale, {}, arguments, nullptr, 7, [] {});
    EXPECT_EQ(timing.runs, 7);
    const Timing enough = time(scale, {}, arguments, nullptr, 0, [] {});
    EXPECT_GE(enough.runs, 5);
    EXPECT_LE(enough.runs, 215);
}

// Makes a call that scales slabs of an array, each with its own launch. Returns the result.
std::vector<float> scaled_in_slabs(std::vector<float> x, size_t slabs, bool overlap, bool pinned) {
    const size_t bytes = x.size() * sizeof(float), slab = (bytes / slabs + 255) / 256 * 256;
    PlannedCall call(device(), bytes, "test", {.overlap = overlap});
    const auto scale = std::make_shared<Function>(device(), "image", "scale");
    for (size_t at = 0; at < bytes; at += slab) {
        const size_t size = std::min(slab, bytes - at);
        const float factor = 3;
        const int n = static_cast<int>(size / sizeof(float));
        call.to_device(0, at, at, size, 0, 0);
        call.launch(scale, {},
                    {{{}, PlannedCall::Place{PlannedCall::in_workspace, at}, {}, {}},
                     {std::string(reinterpret_cast<const char*>(&factor), 4), {}, {}, {}},
                     {std::string(reinterpret_cast<const char*>(&n), 4), {}, {}, {}}});
        call.to_host(1, at, at, size);
    }
    EXPECT_EQ(call.bytes_of(0), bytes);
    std::vector<float> out(x.size());
    if (!pinned) {
        char* arrays[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(out.data())};
        for (int run = 0; run < 2; ++run) call.run(arrays, {});
        return out;
    }
    const PinnedMemory from(device(), bytes), to(device(), bytes);
    std::memcpy(from.data(), x.data(), bytes);
    char* arrays[] = {reinterpret_cast<char*>(from.data()), reinterpret_cast<char*>(to.data())};
    call.run(arrays, {});
    std::memcpy(out.data(), to.data(), bytes);
    return out;
}

TEST(PlannedCall, CopiesAndLaunchesInOrder) {
    for (const size_t count : {size_t{100}, size_t{300000}, size_t{12345678}})
        for (const bool overlap : {false, true})
            for (const bool pinned : {false, true}) {
                if (count > 1000000 && (pinned || !overlap)) continue;  // enough to fill the ring
                std::vector<float> x(count);
                std::iota(x.begin(), x.end(), 0.0f);
                const std::vector<float> out =
                    scaled_in_slabs(x, count < 1000 ? 1 : 5, overlap, pinned);
                for (float& value : x) value *= 3;
                EXPECT_EQ(out, x) << count << " elements";
            }
}

TEST(PlannedCall, CopiesColumns) {
    constexpr size_t first = 2, item = sizeof(float);
    // Rows of the last matrices are longer than a piece, and nearly as long as a slot.
    for (const auto& [rows, cols, count] : {std::array<size_t, 3>{5, 9, 3},
                                            {3000, 1000, 391},
                                            {9, 40000, 30001},
                                            {3, 1100000, 1048576}})
        for (const bool overlap : {false, true})
            for (const bool pinned : {false, true}) {
                const size_t bytes = rows * cols * item, part = rows * count * item;
                PlannedCall call(device(), part, "test", {.overlap = overlap});
                call.to_device(0, first * item, 0, part, count * item, cols * item);
                call.to_host(1, 0, 0, part);
                EXPECT_EQ(call.bytes_of(0), bytes - (cols - first - count) * item);
                const PinnedMemory memory(device(), bytes);
                std::vector<float> x(rows * cols), out(rows * count), right;
                std::iota(x.begin(), x.end(), 0.0f);
                for (size_t r = 0; r < rows; ++r)
                    for (size_t i = 0; i < count; ++i) right.push_back(x[r * cols + first + i]);
                std::memcpy(memory.data(), x.data(), bytes);
                char* arrays[] = {pinned ? reinterpret_cast<char*>(memory.data())
                                         : reinterpret_cast<char*>(x.data()),
                                  reinterpret_cast<char*>(out.data())};
                call.run(arrays, {});
                EXPECT_EQ(out, right) << rows << " rows";
            }
    PlannedCall call(device(), 100, "test", {});
    EXPECT_THROW(call.to_device(0, 0, 0, 100, 30, 50), std::invalid_argument);
}

// Returns the result of a function of the fake driver that takes no arguments.
int of_fake_driver(const char* name) {
    return reinterpret_cast<int (*)()>(dlsym(dlopen(COALESCE_FAKE_DRIVER, RTLD_NOW), name))();
}

TEST(PlannedCall, LaunchesWriteASmallResultToPinnedMemory) {
    const auto add = std::make_shared<Function>(device(), "image", "add");
    for (const size_t count : {size_t{1000}, size_t{1000000}}) {
        std::vector<float> a(count), b(count, 2.0f), out(count), right(count);
        std::iota(a.begin(), a.end(), 0.0f);
        std::iota(right.begin(), right.end(), 2.0f);
        const size_t bytes = count * sizeof(float), place = (bytes + 255) / 256 * 256;
        const int n = int(count);
        PlannedCall call(device(), 3 * place, "test", {.pinned_result = true});
        call.to_device(0, 0, 0, bytes, 0, 0);
        call.to_device(1, 0, place, bytes, 0, 0);
        const auto at = [](size_t offset) {
            return PlannedCall::Argument{
                {}, PlannedCall::Place{PlannedCall::in_workspace, offset}, {}, {}};
        };
        call.launch(add, {},
                    {at(0),
                     at(place),
                     at(2 * place),
                     {std::string(reinterpret_cast<const char*>(&n), 4), {}, {}, {}}});
        call.to_host(2, 0, 2 * place, bytes);
        char* arrays[] = {reinterpret_cast<char*>(a.data()), reinterpret_cast<char*>(b.data()),
                          reinterpret_cast<char*>(out.data())};
        const int before = of_fake_driver("fakeCopiesToHost");
        for (int run = 0; run < 2; ++run) {
            std::fill(out.begin(), out.end(), 0.0f);
            call.run(arrays, {});
            EXPECT_EQ(out, right);
        }
        EXPECT_EQ(of_fake_driver("fakeCopiesToHost") == before, count < 100000);
    }
}

TEST(PlannedCall, LaunchesWithGpuArrays) {
    constexpr size_t bytes = 400;
    auto scale = std::make_shared<Function>(device(), "image", "scale");
    const float factor = 3;
    const int n = 50;
    PlannedCall call(device(), bytes, "test", {});
    // The call owns the kernel, whatever becomes of the caller's reference.
    call.launch(std::move(scale), {},
                {{{}, PlannedCall::Place{1, 100}, {}, {}},
                 {std::string(reinterpret_cast<const char*>(&factor), 4), {}, {}, {}},
                 {std::string(reinterpret_cast<const char*>(&n), 4), {}, {}, {}}});
    std::vector<float> x(100, 1.0f);
    Stream other_stream = nullptr;
    device().driver().stream_create(&other_stream, 1);
    for (Stream stream : {Stream{}, other_stream, Stream{}}) {  // with other arrays each time
        const auto other = device().allocate(bytes, "other"), own = device().allocate(bytes, "own");
        device().to_device(own->address(), x.data(), bytes, nullptr);
        const Address arrays[] = {other->address(), own->address()};
        call.enqueue(arrays, stream);
        std::vector<float> out(100);
        device().to_host(out.data(), own->address(), bytes, nullptr);
        for (size_t i = 0; i < 100; ++i) EXPECT_EQ(out[i], i < 25 || i >= 75 ? 1.0f : 3.0f) << i;
    }
}

TEST(HostMemory, IsKeptForTheNextResult) {
    constexpr size_t bytes = 5000000;
    HostMemory::trim();
    const std::byte* place = nullptr;
    {
        const HostMemory memory(bytes);
        place = memory.data();
        memory.data()[bytes - 1] = std::byte{1};
        EXPECT_NE(HostMemory(bytes).data(), place);
    }
    HostMemory::trim();
    {
        const HostMemory memory(bytes);
    }
    EXPECT_EQ(HostMemory::trim(), size_t{6} << 20);
    for (int i = 0; i < 3; ++i) {
        const HostMemory first(HostMemory::max_kept / 2), second(HostMemory::max_kept / 2 + 1);
    }
    EXPECT_LE(HostMemory::trim(), HostMemory::max_kept);
    EXPECT_NE(message_of([] { const HostMemory memory(size_t{1} << 60); }).find("out of memory"),
              std::string::npos);
}

TEST(PlannedCall, CallsOfSeveralThreadsDoNotWaitForEachOther) {
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int t = 0; t < 6; ++t)
        threads.emplace_back([&, t] {
            const std::vector<float> x(t % 2 ? 100 : 2000000, float(t));
            for (int i = 0; i < 4; ++i)
                right += scaled_in_slabs(x, 1 + t % 3, t % 2, false).back() == 3 * float(t);
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, 24);
}

TEST(PlannedCall, AnInterruptedCallLeavesTheNextOneIntact) {
    struct Interrupted {};
    Function end(device(), "image", "end");
    const auto endless = std::make_shared<Function>(device(), "image", "endless");
    void* none[] = {nullptr};
    for (const size_t count : {size_t{1000}, size_t{3000000}}) {
        std::vector<float> x(count, 1.0f), out(count);
        PlannedCall call(device(), count * sizeof(float), "test", {.overlap = true});
        call.to_device(0, 0, 0, count * sizeof(float), 0, 0);
        call.launch(endless, {}, {{{}, PlannedCall::Place{PlannedCall::in_workspace, 0}, {}, {}}});
        call.to_host(1, 0, 0, count * sizeof(float));
        char* arrays[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(out.data())};
        EXPECT_THROW(call.run(arrays, [] { throw Interrupted(); }), Interrupted);
        launch(end, {}, none, nullptr);
        EXPECT_EQ(scaled_in_slabs(x, 2, true, false), std::vector<float>(count, 3.0f));
    }
}

// Returns how many CUDA arrays and objects the fake driver has.
int existing_textures() { return of_fake_driver("fakeTextures"); }

TEST(Texture, CopiesElementsToItsArrayAndBack) {
    Device& gpu = device();
    std::vector<float> sent(12), received(12);
    std::iota(sent.begin(), sent.end(), 1.0f);
    const size_t bytes = sent.size() * sizeof(float);
    const auto memory = gpu.allocate(bytes, "a test");
    gpu.to_device(memory->address(), sent.data(), bytes, nullptr);
    TextureDescription d;
    d.extent = {4, 3, 1}, d.dimensions = 2, d.surface = true;
    {
        Texture surface(gpu, d, memory->address(), "argument `s`");
        EXPECT_TRUE(surface.in_array());
        EXPECT_EQ(existing_textures(), 2);
        surface.fill(nullptr);
        gpu.fill(memory->address(), 0, bytes, nullptr);
        surface.read_back(nullptr);
        gpu.to_host(received.data(), memory->address(), bytes, nullptr);
        EXPECT_EQ(received, sent);
    }
    EXPECT_EQ(existing_textures(), 0);
}

TEST(Texture, LinearMemoryNeedsNoArray) {
    Device& gpu = device();
    const auto memory = gpu.allocate(64, "a test");
    TextureDescription d;
    d.extent = {16, 1, 1}, d.linear_memory = true;
    Texture texture(gpu, d, memory->address(), "argument `t`");
    EXPECT_FALSE(texture.in_array());
    EXPECT_EQ(texture.handle(), memory->address());
    EXPECT_EQ(existing_textures(), 1);
    texture.destroy();
    EXPECT_EQ(existing_textures(), 0);
}

TEST(Texture, ARefusalNamesTheArgumentAndLeavesNothing) {
    TextureDescription d;
    d.extent = {70000, 1, 1};
    const std::string message =
        message_of([&] { const Texture texture(device(), d, 0, "argument `t`"); });
    EXPECT_NE(message.find("argument `t` (width 70000; the GPU allows width "), std::string::npos)
        << message;
    EXPECT_EQ(existing_textures(), 0);
}

TEST(Launch, WaitingEndsWithTheWorkOrTheTimeLimit) {
    using namespace std::chrono_literals;
    Function queries(device(), "image", "queries");
    int n = 3;
    void* arguments[] = {&n};
    launch(queries, {}, arguments, nullptr);
    EXPECT_EQ(device().last_kernel(), "queries");
    EXPECT_FALSE(device().finishes_within(nullptr, 0ms, "kernel `queries`"));
    EXPECT_TRUE(device().finishes_within(nullptr, 1h, "kernel `queries`"));
    EXPECT_TRUE(device().finishes_within(nullptr, 0ms, "kernel `queries`"));
}

TEST(Launch, RefusesImpossibleGeometries) {
    Function scale(device(), "image", "scale");
    coalesce::Launch geometry;
    geometry.block = {600, 1, 1};
    EXPECT_NE(message_of([&] { admit(scale, geometry); }).find("600 threads"), std::string::npos);
    geometry.block = {32, 1, 1};
    geometry.shared_bytes = 300000;
    EXPECT_NE(message_of([&] { admit(scale, geometry); }).find("232448"), std::string::npos);
    geometry.shared_bytes = 100000;
    EXPECT_NO_THROW(admit(scale, geometry));
}

TEST(Launch, CooperativeGridsMustFit) {
    Function scale(device(), "image", "scale");
    coalesce::Launch geometry;
    geometry.block = {64, 4, 2};  // 512 threads: four blocks fit on a multiprocessor
    geometry.grid = {132, 2, 2};
    geometry.cooperative = true;
    EXPECT_NO_THROW(admit(scale, geometry));
    geometry.grid = {133, 2, 2};
    const std::string why = message_of([&] { admit(scale, geometry); });
    EXPECT_NE(why.find("532 blocks, but the GPU can hold only 528"), std::string::npos) << why;
}

TEST(LoadedModule, RefusalsCarryTheDriversLog) {
    const std::string message = message_of([] { Function(device(), "bad image", "scale"); });
    EXPECT_NE(message.find("a fake syntax error"), std::string::npos) << message;
    EXPECT_THROW(Function(device(), "image", "missing"), LaunchError);
}

TEST(LoadedModule, ItsKernelsShareItsVariables) {
    const auto module = std::make_shared<LoadedModule>(device(), "image", "scale");
    const Function scale(module, "scale"), add(module, "add");
    const LoadedModule::Global counter = module->global("counter");
    EXPECT_EQ(counter.bytes, 4u);
    int value = 0;
    device().to_host(&value, counter.address, 4, nullptr);
    EXPECT_EQ(value, 7);
    const std::string message = message_of([&] { (void)module->global("nope"); });
    EXPECT_NE(message.find("finding variable `nope`"), std::string::npos) << message;
}

TEST(Recovery, AFaultLosesOnlyMemory) {
    Function fault(device(), "image", "fault");
    Function scale(device(), "image", "scale");
    auto memory = device().allocate(4096, "x");
    launch(fault, {}, nullptr, nullptr);
    const std::string message = message_of(
        [] { (void)device().finishes_within(nullptr, std::chrono::milliseconds(0), "a wait"); });
    EXPECT_NE(message.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << message;
    EXPECT_NE(message.find("device=\"sim\""), std::string::npos) << message;
    EXPECT_TRUE(memory->lost());
    memory.reset();

    float one = 1, factor = 5;
    int n = 1;
    const auto fresh = device().allocate(4, "x");
    EXPECT_FALSE(fresh->lost());
    device().to_device(fresh->address(), &one, 4, nullptr);
    Address address = fresh->address();
    void* arguments[] = {&address, &factor, &n};
    launch(scale, {}, arguments, nullptr);
    device().to_host(&one, fresh->address(), 4, nullptr);
    EXPECT_EQ(one, 5.0f);
}

TEST(Workers, EveryWorkerRunsTheTaskOnceAndLateOnesDoNot) {
    Workers workers(3);
    for (int round = 1; round <= 50; ++round) {
        std::atomic<int> runs{0}, late{0};
        workers.run([&] { ++runs; },
                    [&] {
                        while (runs < 3) std::this_thread::yield();
                    });
        EXPECT_EQ(runs, 3);
        workers.run([&] { ++late; }, [] {});
        const int begun = late;
        EXPECT_LE(begun, 3);
        std::this_thread::yield();
        EXPECT_EQ(late, begun);
    }
    EXPECT_THROW(workers.run([] {}, [] { throw LaunchError("x"); }), LaunchError);
}

// After this test, cuda:0 remains broken.
TEST(RecoveryFailure, LaterCallsNameTheCause) {
    setenv("FAKE_DRIVER_NO_RECOVERY", "1", 1);
    Function fault(device(), "image", "fault");
    launch(fault, {}, nullptr, nullptr);
    const std::string first = message_of([] { device().synchronize(nullptr); });
    EXPECT_NE(first.find("cannot be used any more in this process"), std::string::npos) << first;
    const std::string later = message_of([&] { launch(fault, {}, nullptr, nullptr); });
    EXPECT_NE(later.find("because waiting for the GPU failed"), std::string::npos) << later;
    EXPECT_NE(later.find("Start a new process"), std::string::npos) << later;
}

// In the fake driver, as in real drivers, a fault of one context affects all contexts.
TEST(RecoveryFailure, AFaultOfAnotherGpuIsReportedAsSuch) {
    unsetenv("FAKE_DRIVER_NO_RECOVERY");
    (void)message_of([] { device(1).synchronize(nullptr); });  // clears the faults of earlier tests
    device(1).synchronize(nullptr);
    Function fault(device(1), "image", "fault");
    launch(fault, {}, nullptr, nullptr);
    const std::string own = message_of([] { device(1).synchronize(nullptr); });
    EXPECT_NE(own.find("waiting for the GPU failed on cuda:1"), std::string::npos) << own;
    EXPECT_NE(own.find("last kernel that was launched on this GPU is `fault`"), std::string::npos)
        << own;
    EXPECT_EQ(own.find("another GPU"), std::string::npos) << own;
    device(1).synchronize(nullptr);
    Function scale(device(2), "image", "scale");
    // A success in between shows that a later fault belongs to this GPU.
    (void)scale.resources();

    setenv("FAKE_DRIVER_NO_RECOVERY", "1", 1);
    launch(fault, {}, nullptr, nullptr);
    (void)message_of([] { device(1).synchronize(nullptr); });
    const std::string elsewhere = message_of([&] { (void)scale.resources(); });
    EXPECT_NE(elsewhere.find("cuFuncGetAttribute failed on cuda:2"), std::string::npos)
        << elsewhere;
    EXPECT_NE(elsewhere.find("is a fault on another GPU, just now"), std::string::npos)
        << elsewhere;
    EXPECT_NE(elsewhere.find("failed on cuda:1"), std::string::npos) << elsewhere;
    EXPECT_NE(elsewhere.find("`fault`"), std::string::npos) << elsewhere;
    EXPECT_NE(elsewhere.find("docs/reliability.md"), std::string::npos) << elsewhere;
    const std::string later = message_of([] { device(2).synchronize(nullptr); });
    EXPECT_NE(later.find("because of the fault on cuda:1"), std::string::npos) << later;
}

}  // namespace
}  // namespace coalesce::cuda
