#include "cuda/driver.hpp"

#include <cstdlib>

#include "cuda/library.hpp"
#include "errors.hpp"

namespace coalesce::cuda {

const Driver& Driver::get() {
    static const Driver driver = [] {
        const char* path = std::getenv("COALESCE_CUDA_DRIVER");
        return Driver(path != nullptr && *path != '\0' ? path : "libcuda.so.1");
    }();
    return driver;
}

Driver::Driver(const std::string& path) {
    const Library library(path);
    if (!library.ok()) {
        detail = library.error();
        return;
    }
#define COALESCE_FIND(member, symbol, parameters)                          \
    if (!library.find(#symbol, member)) {                                  \
        detail = path + " lacks " #symbol ": the driver is older than 11"; \
        return;                                                            \
    }
    COALESCE_DRIVER_FUNCTIONS(COALESCE_FIND)
#undef COALESCE_FIND
    library.find("cuCtxRecordEvent", context_record_event);
    library.find("cuTensorMapEncodeTiled", encode_tensor_map);
    library.find("cuLaunchKernelEx", launch_with_attributes);
    library.find("cuStreamBeginCapture_v2", stream_begin_capture);
    library.find("cuStreamEndCapture", stream_end_capture);
    library.find("cuGraphInstantiateWithFlags", graph_instantiate);
    library.find("cuGraphLaunch", graph_launch);
    library.find("cuGraphDestroy", graph_destroy);
    library.find("cuGraphExecDestroy", executable_graph_destroy);

    driver_version(&version);
    const Result result = initialize(0);
    if (result == success) device_count(&devices);
    if (result == no_device || (result == success && devices == 0)) {
        status = Status::no_device;
        detail = "the driver sees no CUDA GPU";
    } else if (result != success) {
        status = Status::failed;
        detail = "cuInit: " + describe(result);
    } else {
        status = Status::ok;
    }
}

std::string Driver::describe(Result result) const {
    const char* name = nullptr;
    const char* words = nullptr;
    if (error_name == nullptr || error_name(result, &name) != success || name == nullptr)
        name = "unknown CUDA error";
    std::string text = std::string(name) + " (" + std::to_string(result) + ")";
    if (const std::string_view reason = explain(result); !reason.empty())
        return text + ": " + std::string(reason);
    if (error_string != nullptr && error_string(result, &words) == success && words != nullptr)
        text += std::string(": ") + words;
    return text;
}

void Driver::check(Result result, const std::string& what) const {
    if (result != success) throw LaunchError(what + ": " + describe(result));
}

}  // namespace coalesce::cuda
