// What is asked for here is found by the test.
#pragma once

// Of the end, as far as it was sampled.
inline constexpr const char* kError = "nobody waits for it";
