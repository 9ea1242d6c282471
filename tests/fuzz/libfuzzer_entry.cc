// Entry point that libFuzzer calls for each input; the build defines the target.
#include "tests/fuzz/script.h"

namespace ibid::fuzz {
void IBID_FUZZ_TARGET(Input input);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ibid::fuzz::IBID_FUZZ_TARGET({data, size});
  return 0;
}
