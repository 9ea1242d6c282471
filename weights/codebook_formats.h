// Decoders of the blocks of 256 whose codes are entries of a codebook: one index stands for four or eight values, with
// signs beside it. The bytes are described in weights/block_formats.h, whose functions call these.
#pragma once

#include "weights/block_cursor.h"

namespace ibid {

// Each writes 256 codes, as values of the type's table (base/number_formats.h).
SuperBlock split_iq1_s(BlockCursor in, int8_t* codes);
SuperBlock split_iq1_m(BlockCursor in, int8_t* codes);
SuperBlock split_iq2_xxs(BlockCursor in, int8_t* codes);
SuperBlock split_iq2_xs(BlockCursor in, int8_t* codes);
SuperBlock split_iq2_s(BlockCursor in, int8_t* codes);
SuperBlock split_iq3_xxs(BlockCursor in, int8_t* codes);
SuperBlock split_iq3_s(BlockCursor in, int8_t* codes);

}  // namespace ibid
