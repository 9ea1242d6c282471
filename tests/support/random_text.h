// Random texts with difficult cases, and the seed for them.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace ibid {

// A random short text: letters of several scripts, marks, digits, white space, punctuation, pieces of the
// golden tokenizers' added tokens, and, with raw_bytes, bytes that are not UTF-8.
std::string random_text(std::mt19937_64& random, bool raw_bytes);

// Returns and prints the seed. It is fixed, so that failures are reproducible; $IBID_TEST_SEED overrides it.
uint64_t test_seed();

}  // namespace ibid
