// A chat model: tiny, with random weights, a vocabulary of bytes and a template. Its answers are noise.
#pragma once

#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "tests/support/tiny_model.h"
#include "weights/gguf_writer.h"

namespace ibid {

// The characters that stand for the 256 bytes in byte-level vocabularies (GPT-2's table).
inline std::vector<std::string> byte_letters() {
  std::vector<std::string> letters;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    letters.emplace_back();
    utf8_append(letters.back(), is_itself ? byte : next++);
  }
  return letters;
}

inline GgufWriter byte_model_writer(uint32_t seed) {
  TinyModel tiny;
  tiny.vocab_size = 259;
  tiny.context = 2048;
  tiny.n_layers = 6;
  tiny.dim = 128;
  tiny.ffn_dim = 512;
  tiny.n_heads = 8;
  tiny.n_kv_heads = 8;
  tiny.seed = seed;
  GgufWriter writer = tiny_model_writer(tiny);
  std::vector<std::string> tokens = byte_letters();
  std::vector<int32_t> types(256, 1);
  for (const char* control : {"<|im_start|>", "<|im_end|>", "<|endoftext|>"}) {
    tokens.emplace_back(control);
    types.push_back(3);
  }
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", "smollm");
  writer.add_strings("tokenizer.ggml.tokens", tokens);
  writer.add_i32s("tokenizer.ggml.token_type", types);
  writer.add_strings("tokenizer.ggml.merges", {});
  return writer;
}

inline void write_talking_model(const std::string& path, uint32_t seed = 1) {
  GgufWriter writer = byte_model_writer(seed);
  writer.add_u32("tokenizer.ggml.eos_token_id", 257);
  writer.add_string("tokenizer.chat_template",
                    "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
                    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  CHECK(writer.write(path).ok());
}

// Writes a model that makes embeddings and appends <|endoftext|> to every text, as models with last-token pooling do.
// pooling: GGUF's value.
inline void write_embedding_model(const std::string& path, uint32_t pooling = 3, uint32_t seed = 1) {
  GgufWriter writer = byte_model_writer(seed);
  writer.add_u32("llama.pooling_type", pooling);
  writer.add_u32("tokenizer.ggml.eos_token_id", 258);
  writer.add_bool("tokenizer.ggml.add_eos_token", true);
  CHECK(writer.write(path).ok());
}

}  // namespace ibid
