// Vocabularies of GGUF files, built by a script; those that load encode a few texts.
#include <limits>
#include <string>
#include <vector>

#include "tests/fuzz/memory_files.h"
#include "tests/fuzz/tokenizer_laws.h"
#include "tokenizer/loading/tokenizer_loaders.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid::fuzz {

namespace {

constexpr std::string_view kModels[] = {"gpt2", "llama", "gemma4", "bert", ""};
constexpr std::string_view kPretokenizers[] = {"gpt-2",          "smollm",   "llama-bpe", "qwen2",  "tekken",
                                               "deepseek-v3",    "falcon",   "viking",    "gpt-4o", "qwen35",
                                               "deepseek-coder", "nobody's", "chameleon"};
constexpr std::string_view kTokens[] = {"<unk>",
                                        "<s>",
                                        "</s>",
                                        "a",
                                        "b",
                                        "ab",
                                        "the",
                                        "\u2581",
                                        "\u2581a",
                                        "\u2581the",
                                        "\xC4\xA0",
                                        "\xC4\xA0"
                                        "a",
                                        "\xC4\x8A",
                                        "<0x00>",
                                        "<0xFF>",
                                        "<0xC3>",
                                        "\n",
                                        "\n\n",
                                        "<|im_end|>",
                                        " ",
                                        ""};
constexpr float kScores[] = {
    0, -1, -2.5f, 1e30f, -1e30f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};

std::string one_token(Script& script) {
  const uint8_t choice = script.byte();
  if (choice < 160) return std::string(kTokens[choice % std::size(kTokens)]);
  if (choice < 200) return "<0x" + std::string(1, "0123456789ABCDEF"[choice % 16]) + "F>";
  return script.text(12);
}

// Adds tokens for all bytes, in the byte-level alphabet or as <0x00> to <0xFF>.
void add_bytes(bool written, std::vector<std::string>& tokens) {
  for (unsigned b = 0; b < 256; ++b) {
    const bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    static unsigned n_hidden;
    if (b == 0) n_hidden = 0;
    const unsigned c = shown ? b : 256 + n_hidden++;
    char text[16];
    if (written) {
      std::snprintf(text, sizeof text, "<0x%02X>", b);
    } else if (c < 0x80) {
      std::snprintf(text, sizeof text, "%c", static_cast<int>(c));
    } else {
      std::snprintf(text, sizeof text, "%c%c", static_cast<int>(0xC0 | c >> 6), static_cast<int>(0x80 | (c & 0x3F)));
    }
    tokens.emplace_back(text);
  }
}

void add_arrays(Script& script, GgufWriter& writer) {
  std::vector<std::string> tokens, merges;
  const uint8_t whole = script.byte();
  if (whole % 4 != 0) add_bytes(whole % 4 == 1, tokens);
  const size_t n_bytes = tokens.size();
  for (size_t n = script.below(24); n > 0; --n) tokens.push_back(one_token(script));
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (size_t i = 0; i < tokens.size(); ++i) {
    scores.push_back(i < n_bytes ? 0 : script.pick(kScores));
    types.push_back(i < n_bytes ? (whole % 4 == 1 ? 6 : 1) : static_cast<int32_t>(script.byte() % 8) % 7);
  }
  if (script.byte() % 16 == 15) types.push_back(1);
  for (size_t n = script.below(16); n > 0; --n) merges.push_back(one_token(script) + " " + one_token(script));
  writer.add_strings("tokenizer.ggml.tokens", tokens);
  if (script.byte() % 8 != 7) writer.add_f32s("tokenizer.ggml.scores", scores);
  if (script.byte() % 8 != 7) writer.add_i32s("tokenizer.ggml.token_type", types);
  if (script.byte() % 8 != 7) writer.add_strings("tokenizer.ggml.merges", merges);
}

}  // namespace

void gguf_vocabulary(Input input) {
  static const MemoryFile& file = *new MemoryFile;
  Script script(input);
  GgufWriter writer;
  writer.add_string("tokenizer.ggml.model", script.pick(kModels));
  writer.add_string("tokenizer.ggml.pre", script.pick(kPretokenizers));
  if (script.flag()) writer.add_string("general.name", "Phi-3 mini");
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.unknown_token_id"}) {
    if (const uint8_t id = script.byte(); id < 250) writer.add_i32(key, id % 4 == 3 ? id : id % 8 - 1);
  }
  for (const char* key : {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix"}) {
    if (const uint8_t value = script.byte(); value % 3 != 0) writer.add_bool(key, value % 3 == 1);
  }
  add_arrays(script, writer);
  const auto model = open_model_file(file.write(writer.bytes()), {.vocabulary_only = true});
  CHECK(model.ok()) << model.status().message();
  const auto tokenizer = load_gguf_tokenizer(**model);
  if (!tokenizer.ok()) return;
  for (const std::string_view text : {" the caf\xC3\xA9 ab\n\n  <s>", "\xEF\xAC\x81\xFF\xE2\x96\x81 a</s>b  "}) {
    check_tokenizer(**tokenizer, text, script);
  }
}

}  // namespace ibid::fuzz
