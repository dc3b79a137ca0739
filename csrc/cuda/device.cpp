#include "cuda/device.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "errors.hpp"

namespace coalesce::cuda {

namespace {

std::string in_mebibytes(size_t bytes) {
    if (bytes < (size_t{1} << 20)) return std::to_string(bytes) + " bytes";
    return std::to_string(bytes >> 20) + " MiB";
}

constexpr const char* forked =
    "this process was forked from a process that uses the GPU, and CUDA does not work after a "
    "fork.\n"
    "  Start processes with multiprocessing's \"spawn\" method. In this process, device=\"sim\" "
    "works.";

constexpr const char* reset_note =
    "\n  The GPU was reset: arrays in its memory are lost, but new calls work.";

constexpr const char* how_to_go_on =
    "\n  GPUs cannot be used any more in this process; device=\"sim\" can."
    "\n  Start a new process (in a notebook: restart the kernel)."
    "\n  docs/reliability.md shows how to launch a kernel in a process of its own, so that a fault "
    "does not affect other processes.";

constexpr unsigned disable_timing = 2;  // CU_EVENT_DISABLE_TIMING

// The last fault: its message, its GPU and its time. The driver also reports the fault of one GPU
// in calls for other GPUs of the process. Therefore all GPUs share one record.
struct Fault {
    uint64_t number = 0;  // the first fault of the process has number 1
    int ordinal = -1;
    std::string what;
    std::chrono::steady_clock::time_point when = std::chrono::steady_clock::now();

    [[nodiscard]] std::string ago() const {
        using namespace std::chrono;
        const auto passed = duration_cast<seconds>(steady_clock::now() - when).count();
        return passed < 2 ? "just now" : std::to_string(passed) + " s ago";
    }
};
ForkSafe<std::mutex> fault_mutex;
std::atomic<uint64_t> fault_number{0};
Fault& last_fault() {
    static auto& fault = *new Fault;
    return fault;
}

}  // namespace

Memory::Memory(Device& device, Pool::Block block)
    : device_(device), block_(block), generation_(device.generation()) {}

Memory::~Memory() {
    if (lost()) return;
    if (elsewhere_)
        device_.give_back_later(block_);
    else
        device_.pool().give_back(block_);
}

bool Memory::lost() const { return generation_ != device_.generation(); }

Device& Device::get(int ordinal) {
    const Driver& driver = Driver::get();
    if (driver.status != Driver::Status::ok) throw DeviceUnavailable(driver.detail);
    if (fork::count() != driver.forks) throw DeviceUnavailable(forked);
    if (ordinal < 0 || ordinal >= driver.devices)
        throw DeviceUnavailable("there is no GPU cuda:" + std::to_string(ordinal) +
                                "; the number of GPUs that the driver sees is " +
                                std::to_string(driver.devices));
    // These objects are never destroyed. When Python exits, arrays may still exist after all other
    // objects are gone, and the arrays need these objects.
    static auto& mutex = *new ForkSafe<std::mutex>;
    static auto& devices = *new std::vector<Device*>;
    const std::lock_guard lock(mutex);
    devices.resize(static_cast<size_t>(driver.devices));
    Device*& device = devices[static_cast<size_t>(ordinal)];
    if (device == nullptr) device = new Device(driver, ordinal);
    return *device;
}

Device::Device(const Driver& driver, int ordinal)
    : driver_(driver),
      ordinal_(ordinal),
      pool_({[this](Address* address, size_t bytes) {
                 return driver_.memory_allocate(address, bytes);
             },
             [this](Address address) { driver_.memory_free(address); }}),
      staging_(driver) {
    const std::string what = "cannot open cuda:" + std::to_string(ordinal);
    std::array<char, 256> text{};
    driver_.check(driver_.device_get(&handle_, ordinal), what);
    driver_.check(driver_.device_name(text.data(), static_cast<int>(text.size()), handle_), what);
    driver_.check(driver_.device_memory(&total_memory_, handle_), what);
    name_ = text.data();
    if (const Result result = driver_.context_retain(&context_, handle_); result != success)
        throw DeviceUnavailable(what + ": " + driver_.describe(result));
}

std::string Device::label() const {
    return "cuda:" + std::to_string(ordinal_) + " (" + name_ + ")";
}

int Device::attribute(int number) const {
    int value = 0;
    driver_.check(driver_.device_attribute(&value, number, handle_), "cuDeviceGetAttribute");
    return value;
}

std::pair<int, int> Device::compute_capability() const { return {attribute(75), attribute(76)}; }

Device::CurrentContext::CurrentContext(const Device& device) : driver_(device.driver_) {
    if (fork::count() != device.forks_)
        throw LaunchError(device.label() + " cannot be used: " + forked);
    ContextHandle current = nullptr;
    driver_.context_current(&current);
    if (current == device.context_) return;
    before_ = current;
    driver_.context_set(device.context_);
}

Device::CurrentContext::~CurrentContext() {
    if (before_ != nullptr) driver_.context_set(before_);
}

std::shared_ptr<Memory> Device::allocate(size_t bytes, const std::string& what) {
    const CurrentContext current(*this);
    give_back_idle();
    Pool::Block block;
    const Result result = pool_.take(bytes, block);
    if (result == out_of_memory) {
        size_t free = 0, total = 0;
        free_memory(free, total);
        throw LaunchError("out of GPU memory: " + what + " needs " + in_mebibytes(bytes) + "; " +
                          label() + " has " + in_mebibytes(free) + " free of " +
                          in_mebibytes(total) + ", and this process's arrays hold " +
                          in_mebibytes(pool_.usage().in_use));
    }
    check(result, "allocating GPU memory for " + what);
    return std::make_shared<Memory>(*this, block);
}

void Device::to_device(Address target, const void* source, size_t bytes, Stream stream) {
    const CurrentContext current(*this);
    check(staging_.to_device(target, source, bytes, stream), "copying to the GPU");
}

void Device::to_host(void* target, Address source, size_t bytes, Stream stream) {
    const CurrentContext current(*this);
    check(staging_.to_host(target, source, bytes, stream), "copying from the GPU");
}

void Device::run(std::span<const Step> steps, bool overlap, const Waiting& waiting) {
    const CurrentContext current(*this);
    const Result result = staging_.run(steps, overlap, waiting);
    if (result != success) check(result, "kernel `" + last_kernel() + "`");
}

void Device::copy(Address target, Address source, size_t bytes, Stream stream) {
    if (bytes == 0) return;
    const CurrentContext current(*this);
    check(driver_.copy_on_device(target, source, bytes, stream), "copying on the GPU");
}

void Device::fill(Address target, unsigned char value, size_t bytes, Stream stream) {
    if (bytes == 0) return;
    const CurrentContext current(*this);
    check(driver_.memory_set(target, value, bytes, stream), "filling memory of the GPU");
}

void Device::order(Stream first, Stream second) {
    if (first == second) return;
    const CurrentContext current(*this);
    EventHandle event = nullptr;
    check(driver_.event_create(&event, disable_timing), "cuEventCreate");
    Result result = driver_.event_record(event, first);
    if (result == success) result = driver_.stream_wait_event(second, event, 0);
    driver_.event_destroy(event);  // the driver destroys it after the event has occurred
    check(result, "waiting for another stream");
}

void Device::prepare_staging() {
    const CurrentContext current(*this);
    check(staging_.prepare(), "making the ring of pinned memory");
}

void Device::synchronize(Stream stream, const std::string& what) {
    const CurrentContext current(*this);
    check(driver_.stream_synchronize(stream), what);
}

bool Device::finishes_within(Stream stream, std::chrono::milliseconds time,
                             const std::string& what) {
    using Clock = std::chrono::steady_clock;
    const CurrentContext current(*this);
    const auto start = Clock::now();
    for (;;) {
        const Result result = driver_.stream_query(stream);
        if (result != not_ready) {
            check(result, what);
            return true;
        }
        // For the first millisecond, the loop queries the GPU without pauses, as the driver does.
        // Then the pauses grow with the elapsed time. The end of the work is noticed at most 2 %
        // late.
        const auto passed = Clock::now() - start;
        if (passed >= time) return false;
        if (passed > std::chrono::milliseconds(1))
            std::this_thread::sleep_for(passed / 50);
        else
            std::this_thread::yield();
    }
}

void Device::give_back_later(const Pool::Block& block) {
    const CurrentContext current(*this);
    EventHandle idle = nullptr;
    if (driver_.context_record_event != nullptr &&
        driver_.event_create(&idle, disable_timing) == success) {
        if (driver_.context_record_event(context_, idle) == success) {
            const std::lock_guard lock(busy_mutex_);
            busy_.push_back({block, idle});
            return;
        }
        driver_.event_destroy(idle);
    }
    // The event could not be recorded, because the driver is too old or a stream is being captured.
    // Wait for all work of the GPU instead. If this fails, too, it is not known when the memory is
    // free; then it is never reused.
    if (driver_.context_synchronize() == success) pool_.give_back(block);
}

void Device::give_back_idle() {
    const std::lock_guard lock(busy_mutex_);
    std::erase_if(busy_, [this](const Busy& busy) {
        if (driver_.event_query(busy.idle) != success) return false;
        driver_.event_destroy(busy.idle);
        pool_.give_back(busy.block);
        return true;
    });
}

void Device::free_memory(size_t& free, size_t& total) const {
    const CurrentContext current(*this);
    driver_.memory_info(&free, &total);
}

void Device::check(Result result, const std::string& what) {
    if (result == success) {  // a success shows that no fault has broken this GPU
        if (const uint64_t number = fault_number; number != seen_fault_) seen_fault_ = number;
        return;
    }
    if (!is_sticky(result))
        throw LaunchError(what + " failed on " + label() + ": " + driver_.describe(result));

    const std::lock_guard lock(recovery_);
    if (!broken_by_.empty())
        throw LaunchError(label() + " cannot be used any more in this process, because " +
                          broken_by_ + "." + how_to_go_on);
    const std::string failure = what + " failed on " + label() + ": " + driver_.describe(result);
    const std::lock_guard one_at_a_time(fault_mutex);
    Fault& fault = last_fault();
    const bool from_elsewhere = fault.ordinal != ordinal_ && fault.number > seen_fault_;
    if (!from_elsewhere) {
        const std::string kernel = last_kernel();
        fault = {fault.number + 1, ordinal_, failure};
        if (!kernel.empty() && what.find("`" + kernel + "`") == std::string::npos)
            fault.what += "\n  The last kernel that was launched on this GPU is `" + kernel + "`.";
        fault_number = fault.number;
    }
    seen_fault_ = fault.number;
    const bool recovered = recover();
    const char* next = recovered ? reset_note : how_to_go_on;
    if (from_elsewhere) {
        if (!recovered) broken_by_ = "of the fault on cuda:" + std::to_string(fault.ordinal);
        throw LaunchError(failure +
                          "\n  This call did not cause the error."
                          " The cause is a fault on another GPU, " +
                          fault.ago() + ":\n  " + fault.what + next);
    }
    if (!recovered) broken_by_ = what + " failed with " + driver_.describe(result);
    throw LaunchError(
        fault.what +
        "\n  The cause is this kernel, or another kernel that was still running."
        "\n  Run the same call with device=\"sim\": the error then names the access and the line." +
        next);
}

void Device::launches(const std::string& kernel) {
    const std::lock_guard lock(launched_);
    last_kernel_ = kernel;
}

std::string Device::last_kernel() {
    const std::lock_guard lock(launched_);
    return last_kernel_;
}

bool Device::recover() {
    ++generation_;
    pool_.forget();
    {
        const std::lock_guard lock(busy_mutex_);
        busy_.clear();
    }
    staging_.forget();
    driver_.context_set(nullptr);
    driver_.context_release(handle_);
    driver_.context_reset(handle_);
    return driver_.context_retain(&context_, handle_) == success &&
           driver_.context_set(context_) == success && driver_.context_synchronize() == success;
}

}  // namespace coalesce::cuda
