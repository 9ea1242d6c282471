// The header of a GGUF file, from raw bytes.
#include "tests/fuzz/gguf_laws.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

void gguf_header(Input input) {
  const auto file = std::as_bytes(input);
  for (const bool with_tensors : {false, true}) {
    const auto header = parse_gguf_header(file, "input", with_tensors);
    if (header.ok()) {
      check_gguf(file, *header, with_tensors);
    } else {
      CHECK(header.status().message().starts_with("input: ")) << header.status().message();
    }
  }
}

}  // namespace ibid::fuzz
