// Random texts that find mistakes, and the seed they come from.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace ibid {

// A random short text: letters of several scripts, marks, digits, white space, punctuation, pieces of the
// golden tokenizers' added tokens, and, with raw_bytes, bytes that are not UTF-8.
std::string random_text(std::mt19937_64& random, bool raw_bytes);

// A failure must be there again in the next run, so the seed is fixed; $IBID_TEST_SEED overrides it. Printed.
uint64_t test_seed();

}  // namespace ibid
