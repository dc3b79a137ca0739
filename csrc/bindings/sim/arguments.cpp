// Maps the arrays of a launch into the simulator's memory.
#include <algorithm>

#include "bindings/sim/sim.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

Arguments::Arguments(const py::list& values) : device_arrays_(sim::live_arrays()) {
    for (const py::handle value : values) {
        if (py::isinstance<BufferArgument>(value)) {
            pieces_.push_back(piece_of(value.cast<BufferArgument&>()));
        }
    }
}

std::vector<size_t> Arguments::map_device_arrays(sim::AddressSpace& memory) {
    std::vector<bool> mapped(pieces_.size());
    for (const auto& array : device_arrays_) {
        sim::Buffer buffer = array->buffer();
        for (size_t i = 0; i < pieces_.size(); ++i) {
            Piece& p = pieces_[i];
            if (mapped[i] || p.buffer.host < buffer.host ||
                p.buffer.host + p.buffer.bytes > buffer.host + buffer.bytes)
                continue;
            mapped[i] = true;
            total_bytes_ += p.buffer.bytes;
            p.address = buffer.address + uint64_t(p.buffer.host - buffer.host);
            // The argument lies in this device array. So the buffer of the array gets the
            // argument's name. If the argument is the whole array, the buffer also gets its shape
            // and the type of its elements. (An array of another library is bytes before.)
            buffer.name = p.buffer.name;
            buffer.parts.push_back(
                {p.buffer.name, uint64_t(p.buffer.host - buffer.host), p.buffer.bytes});
            if (p.buffer.bytes == buffer.bytes) {
                buffer.shape = p.buffer.shape;
                buffer.item_bytes = p.buffer.item_bytes;
                buffer.type = p.buffer.type;
            } else {
                buffer.shape.clear();
            }
            // The mask of a part is the corresponding part of the whole array's mask.
            if (p.buffer.undefined)
                buffer.undefined = p.buffer.undefined - (p.buffer.host - buffer.host);
        }
        memory.add_at(std::move(buffer));
    }
    std::vector<size_t> rest;
    for (size_t i = 0; i < pieces_.size(); ++i)
        if (!mapped[i]) rest.push_back(i);
    return rest;
}

void Arguments::map_into(sim::AddressSpace& memory) {
    const std::vector<size_t> host_arrays = map_device_arrays(memory);
    std::vector<size_t> order = host_arrays;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return pieces_[a].buffer.host < pieces_[b].buffer.host;
    });
    std::vector<sim::Buffer> buffers;
    std::vector<size_t> buffer_of(pieces_.size());
    for (const size_t n : order) {
        const sim::Buffer& b = pieces_[n].buffer;
        if (buffers.empty() || b.host >= buffers.back().host + buffers.back().bytes) {
            buffers.push_back(b);
            total_bytes_ += b.bytes;
        } else {
            sim::Buffer& buffer = buffers.back();
            const uint64_t before = buffer.bytes;
            const uint64_t end = uint64_t(b.host - buffer.host) + b.bytes;
            // This array overlaps the previous one, so both get one buffer. If this array extends
            // beyond the end of the previous one, the shape of the buffer is not known.
            if ((b.bytes > buffer.bytes || b.host != buffer.host) && end > buffer.bytes)
                buffer.shape.clear();
            buffer.bytes = std::max(buffer.bytes, end);
            buffer.writable = buffer.writable || b.writable;
            buffer.whole_before = buffer.whole_after = 0;
            if (b.undefined != buffer.undefined || b.bytes != buffer.bytes)
                buffer.undefined = nullptr;
            const uint64_t first = uint64_t(b.host - buffer.host);
            for (const sim::Buffer::Part& part : b.parts)
                buffer.parts.push_back({part.name, first + part.offset, part.bytes});
            total_bytes_ += buffer.bytes - before;
        }
        buffer_of[n] = buffers.size() - 1;
    }
    for (sim::Buffer& buffer : buffers) {
        buffer.has_gaps = std::ranges::none_of(
            buffer.parts, [&](const sim::Buffer::Part& p) { return p.bytes == buffer.bytes; });
    }
    // Addresses are in the order of the arguments, so that they are the same in every run.
    std::vector<uint64_t> addresses(buffers.size());
    for (const size_t n : host_arrays) {
        const sim::Buffer& buffer = buffers[buffer_of[n]];
        uint64_t& address = addresses[buffer_of[n]];
        if (address == 0) address = memory.add(buffer);
        pieces_[n].address = address + uint64_t(pieces_[n].buffer.host - buffer.host);
    }
    for (Piece& p : pieces_) {
        if (!p.texture) continue;
        sim::TextureObject object = *p.texture;
        object.address = p.address;
        p.object = std::make_unique<sim::TextureObjectBytes>(sim::encode(object));
        sim::Buffer place;
        place.name = "the texture object `" + p.buffer.name + "`";
        place.bytes = p.object->size();
        place.host = p.object->data();
        place.writable = false;
        p.handle = memory.add_object(std::move(place));
    }
}

namespace {

// Stores in the buffer of a view how many bytes of the whole array are before and after the view.
// The attribute `base` of a view is the NumPy array from which it was taken.
void set_bytes_around(sim::Buffer& view, const py::array& array) {
    py::object whole = array;
    while (py::isinstance<py::array>(whole)) {
        py::object base = whole.attr("base");
        if (!py::isinstance<py::array>(base)) break;
        whole = std::move(base);
    }
    const auto all = whole.cast<py::array>();
    if (!(all.flags() & (py::array::c_style | py::array::f_style))) return;
    const auto* const first = static_cast<const std::byte*>(all.data());
    if (first > view.host || first + all.nbytes() < view.host + view.bytes) return;
    view.whole_before = uint64_t(view.host - first);
    view.whole_after = uint64_t(all.nbytes()) - view.whole_before - view.bytes;
}

}  // namespace

Arguments::Piece Arguments::piece_of(const BufferArgument& b) {
    Piece p;
    p.texture = b.texture;
    p.buffer.name = b.name;
    p.buffer.bytes = uint64_t(b.array.nbytes());
    p.buffer.host = static_cast<std::byte*>(const_cast<void*>(b.array.data()));
    p.buffer.writable = b.writable;
    if (!b.undefined.is_none()) {
        auto mask = b.undefined.cast<py::array_t<bool, py::array::c_style>>();
        p.buffer.undefined = mask.mutable_data();
    }
    p.buffer.shape.assign(b.array.shape(), b.array.shape() + b.array.ndim());
    p.buffer.item_bytes = uint32_t(b.array.itemsize());
    p.buffer.type = py::str(b.array.dtype());
    p.buffer.parts = {{b.name, b.view_bytes ? b.offset : 0, b.view_bytes.value_or(p.buffer.bytes)}};
    set_bytes_around(p.buffer, b.array);
    return p;
}

}  // namespace coalesce::bindings
