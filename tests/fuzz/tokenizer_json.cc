// tokenizer.json from raw bytes; tokenizers that load encode a few texts.
#include <optional>
#include <string>

#include "tests/fuzz/tokenizer_laws.h"
#include "tests/tokenizer/memory_model_file.h"
#include "tokenizer/loading/tokenizer_loaders.h"

namespace ibid::fuzz {

void tokenizer_json(Input input) {
  static const MemoryModelFile& beside =
      *new MemoryModelFile({{"tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})"},
                            {"generation_config.json", R"({"eos_token_id": [2, 1]})"}});
  std::optional<TokenizerKind> kind;
  const auto tokenizer = load_json_tokenizer(beside, text_of(input), kind);
  if (!tokenizer.ok()) {
    CHECK(tokenizer.status().message().starts_with("model")) << tokenizer.status().message();
    return;
  }
  Script script(input.last(std::min<size_t>(input.size(), 16)));
  for (const std::string_view text : {" the caf\xC3\xA9 1\n2  <s>", "\xEF\xAC\x81\xFF\xE2\x96\x81 a</s>b  "}) {
    check_tokenizer(**tokenizer, text, script);
  }
}

}  // namespace ibid::fuzz
