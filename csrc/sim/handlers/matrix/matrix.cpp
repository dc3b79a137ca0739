// Products of matrices in registers (mma, wmma.mma; HMMA, IMMA, BMMA, DMMA), and transpositions
// (movmatrix; MOVM).
//
// METHOD
// The elements of a tile are copied from the registers of all lanes to arrays
// (fragments.hpp). The product is computed in these arrays (matrix/arithmetic.hpp). Then the
// result is copied back to the registers.
#include <cstring>

#include "sim/handlers/matrix/arithmetic.hpp"
#include "sim/handlers/matrix/fragments.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/ops.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim::COALESCE_ISA {

namespace {

void multiply(Warp& w, const Op& op) {
    must_be_whole(w, op);
    const Matrices& x = w.block->program->matrices[op.get<MatrixOperand>().index];
    Tile tiles[2];
    const bool halves = x.m == 16;
    for (int n = 0; n < x.tiles; ++n) {
        Tile& t = tiles[n];
        gather(w, x.a + n * x.a_step, x.a_count, bits_of(x.a_type), halves, t.a);
        gather(w, x.b + n * x.b_step, x.b_count, bits_of(x.b_type), false, t.b);
        if (!halves) {  // the lower rows are computed, but not used
            for (auto& row : t.a) std::fill_n(row + 8, 8, 0u);
            std::memset(t.c, 0, sizeof t.c);
        }
        gather_sums(w, x.c + n * x.c_step, x.c_count, x.c_type, t);
        switch (x.arithmetic) {
            case Arithmetic::in_halves:
                multiply_in_halves(x, t);
                break;
            case Arithmetic::integers:
                multiply_integers(x, t);
                break;
            case Arithmetic::bits_and:
            case Arithmetic::bits_xor:
                multiply_bits(x, t);
                break;
            default:
                multiply_fused(x, t);
        }
    }
    for (int n = 0; n < x.tiles; ++n)
        scatter_sums(w, x.d + n * x.d_step, x.d_count, x.d_type, tiles[n]);
}

// Reads a double from one 64-bit register, or from a pair of 32-bit registers.
double read_double(Warp& w, const Matrices& x, Locator at, int lane) {
    if (!x.pairs) return w.lanes<const double>(at)[lane];
    const uint32_t* const r = w.lanes<const uint32_t>(at);
    return std::bit_cast<double>(uint64_t{r[lane]} | uint64_t{r[warp_size + lane]} << 32);
}

void write_double(Warp& w, const Matrices& x, Locator at, int lane, double value) {
    if (!x.pairs) {
        w.lanes<double>(at)[lane] = value;
        return;
    }
    uint32_t* const r = w.lanes<uint32_t>(at);
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    r[lane] = uint32_t(bits);
    r[warp_size + lane] = uint32_t(bits >> 32);
}

void multiply_doubles(Warp& w, const Op& op) {
    must_be_whole(w, op);
    const Matrices& x = w.block->program->matrices[op.get<MatrixOperand>().index];
    alignas(64) double a[16][tile_rows] = {}, b[16][tile_columns],
                       sum[tile_columns][tile_rows] = {};
    const bool halves = x.m == 16;
    for (int lane = 0; lane < warp_size; ++lane) {
        const int group = lane / 4, member = lane % 4;
        for (int r = 0; r < x.a_count; ++r)
            a[(halves ? r >> 1 : r) * 4 + member][group + (halves ? 8 * (r & 1) : 0)] =
                read_double(w, x, x.a[r], lane);
        for (int r = 0; r < x.b_count; ++r)
            b[4 * r + member][group] = read_double(w, x, x.b[r], lane);
        for (int r = 0; r < x.c_count; ++r)
            sum[2 * member + (r & 1)][group + 8 * (r >> 1)] = read_double(w, x, x.c[r], lane);
    }
    for (int j = 0; j < tile_columns; ++j) {
        for (int k = 0; k < x.k; ++k) {
            for (int i = 0; i < tile_rows; ++i) sum[j][i] = std::fma(a[k][i], b[k][j], sum[j][i]);
        }
    }
    for (int r = 0; r < x.d_count; ++r) {
        for (int lane = 0; lane < warp_size; ++lane)
            write_double(w, x, x.d[r], lane,
                         sum[2 * (lane % 4) + (r & 1)][lane / 4 + 8 * (r >> 1)]);
    }
}

// Executes mma.m8n8k4 of halves: four independent groups of lanes compute one product each. Group q
// has lanes 4q to 4q + 3 and 16 + 4q to 16 + 4q + 3. Only GPUs of compute capability 7.0 have
// tensor cores for this instruction. For other GPUs, ptxas replaces it by float multiplications,
// and this function does the same.
void multiply_in_floats(Warp& w, const Op& op) {
    must_be_whole(w, op);
    const Matrices& x = w.block->program->matrices[op.get<MatrixOperand>().index];
    const auto half = [&](const Locator* registers, int lane, int i) {
        return half_to_float(
            uint16_t(w.lanes<const uint32_t>(registers[i / 2])[lane] >> (i % 2 * 16)));
    };
    // Returns the row and the column of element i of c or d.
    const auto place = [](Element type, int lane, int i) {
        const int lower = lane < 16 ? 0 : 4;
        if (type == Element::f16) return std::pair{lane % 4 + lower, i};
        return std::pair{(lane & 1) + (i & 2) + lower, (i & 4) + (lane & 2) + (i & 1)};
    };
    float d[4][8][8];
    for (int quad = 0; quad < 4; ++quad) {
        float a[8][4], b[4][8], c[8][8];
        for (int n = 0; n < 8; ++n) {
            const int lane = 4 * quad + n % 4 + n / 4 * 16, lower = n / 4 * 4;
            for (int i = 0; i < 4; ++i) {
                if (x.row_a)
                    a[n % 4 + lower][i] = half(x.a, lane, i);
                else
                    a[i + lower][n % 4] = half(x.a, lane, i);
                if (x.row_b)
                    b[n % 4][i + lower] = half(x.b, lane, i);
                else
                    b[i][n % 4 + lower] = half(x.b, lane, i);
            }
            for (int i = 0; i < 8; ++i) {
                const auto [row, column] = place(x.c_type, lane, i);
                c[row][column] = x.c_type == Element::f16 ? half(x.c, lane, i)
                                                          : w.lanes<const float>(x.c[i])[lane];
            }
        }
        for (int i = 0; i < 8; ++i) {
            for (int j = 0; j < 8; ++j) {
                if (x.d_type == Element::f16) {
                    const float first = std::fma(a[i][1], b[1][j], a[i][0] * b[0][j]);
                    const float second = std::fma(a[i][3], b[3][j], a[i][2] * b[2][j]);
                    d[quad][i][j] = (c[i][j] + first) + second;
                } else {
                    float sum = std::fma(a[i][0], b[0][j], 0.0f);
                    for (int k = 1; k < 4; ++k) sum = std::fma(a[i][k], b[k][j], sum);
                    d[quad][i][j] = canonical(c[i][j] + sum);
                }
            }
        }
    }
    for (int lane = 0; lane < warp_size; ++lane) {
        for (int i = 0; i < 8; ++i) {
            const auto [row, column] = place(x.d_type, lane, i);
            const float value = d[lane / 4 % 4][row][column];
            if (x.d_type == Element::f16) {
                uint32_t& word = w.lanes<uint32_t>(x.d[i / 2])[lane];
                const uint32_t bits = float_to_half(value);
                word = i % 2 ? (word & 0xffff) | bits << 16 : bits;
            } else {
                w.lanes<float>(x.d[i])[lane] = value;
            }
        }
    }
}

// movmatrix transposes an 8 x 8 matrix of 16-bit elements. Lane 4g + t has the elements (g, 2t) and
// (g, 2t + 1).
void transpose(Warp& w, const Op& op) {
    must_be_whole(w, op);
    const Matrices& x = w.block->program->matrices[op.get<MatrixOperand>().index];
    uint32_t a[warp_size];
    std::memcpy(a, w.lanes<const uint32_t>(x.a[0]), sizeof a);
    uint32_t* const d = w.lanes<uint32_t>(x.d[0]);
    for (int lane = 0; lane < warp_size; ++lane) {
        const int row = lane / 4, column = 2 * (lane % 4);
        const auto at = [&](int r, int c) { return a[4 * r + c / 2] >> (c % 2 * 16) & 0xffff; };
        d[lane] = at(column, row) | at(column + 1, row) << 16;
    }
}

}  // namespace

Handler select_matrix(MatrixKind kind) {
    switch (kind) {
        case MatrixKind::transpose:
            return &transpose;
        case MatrixKind::doubles:
            return &multiply_doubles;
        case MatrixKind::in_floats:
            return &multiply_in_floats;
        default:
            return &multiply;
    }
}

}  // namespace coalesce::sim::COALESCE_ISA
