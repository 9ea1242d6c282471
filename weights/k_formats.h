// Decoders of the blocks of 256 with two levels of scales whose codes are numbers: Q2_K to Q6_K. The bytes are
// described in weights/block_formats.h, whose functions call these.
#pragma once

#include "weights/block_cursor.h"

namespace ibid {

// Each writes 256 codes, without their offset where the type has no mins.
SuperBlock split_q2_k(BlockCursor in, int8_t* codes);
SuperBlock split_q3_k(BlockCursor in, int8_t* codes);
SuperBlock split_q4_k(BlockCursor in, int8_t* codes);
SuperBlock split_q5_k(BlockCursor in, int8_t* codes);
SuperBlock split_q6_k(BlockCursor in, int8_t* codes);

}  // namespace ibid
