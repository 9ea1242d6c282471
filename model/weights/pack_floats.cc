#include "model/weights/pack_floats.h"

#include <cstring>

namespace ibid {

using namespace lanes;

namespace {

// Floats: a panel is the rows' numbers, turned. A word has one number of 32 bits, or two of 16.
template <typename T>
void pack_floats(Blocks& blocks, size_t n_cols, std::byte* out) {
  constexpr size_t kPerWord = sizeof(uint32_t) / sizeof(T);
  const size_t whole = n_cols / (4 * kPerWord) * (4 * kPerWord);
  for (size_t col = 0; col < whole; col += 4 * kPerWord, out += sizeof(Word[4])) {
    Word words[4];
    gather<4>(blocks, col * sizeof(T), words);
    if constexpr (kPerWord == 1) {
      std::memcpy(out, words, sizeof words);
    } else {
      for (size_t w = 0; w < 4; ++w) {
        store_halves(words[w], 0, out + sizeof(Word) * w);
        store_halves(words[w], 16, out + sizeof(Word) * w + sizeof(Word) / 2);
      }
    }
  }
  for (size_t col = whole; col < n_cols; ++col, out += kLanes * sizeof(T)) {
    for (size_t r = 0; r < kLanes; ++r) std::memcpy(out + r * sizeof(T), blocks[r] + col * sizeof(T), sizeof(T));
  }
}

}  // namespace

void pack_float_panel(PanelType type, Blocks& rows, size_t n_rows, size_t n_cols, std::byte* out) {
  const size_t bytes = type == PanelType::kPF ? 4 : 2;
  std::byte* end = out + kLanes * bytes * n_cols;
  if (bytes == 4) {
    pack_floats<uint32_t>(rows, n_cols, out);
  } else {
    pack_floats<uint16_t>(rows, n_cols, out);
  }
  if (n_rows < kLanes) clear_lanes(n_rows, out, end, bytes);
  std::memset(end, 0, panel_bytes(type, n_cols) - kLanes * bytes * n_cols);
}

}  // namespace ibid
