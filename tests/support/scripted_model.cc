#include "tests/support/scripted_model.h"

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "tests/support/byte_alphabet.h"
#include "tests/support/gguf_tensors.h"
#include "weights/gguf_writer.h"

namespace ibid {
namespace {

constexpr size_t kHeadDim = 32, kFfnDim = 32, kNBytes = 256;
constexpr int32_t kNormal = 1, kControl = 3;  // tokenizer.ggml.token_type
constexpr char kPieceEnd = '\x1f';

// Splits an answer into pieces that are not in `taken`, and adds these to it.
std::vector<std::string> pieces_of(std::string_view text, std::set<std::string>& taken) {
  const bool marked = text.find(kPieceEnd) != std::string_view::npos;
  std::vector<std::string> pieces;
  std::string piece;
  const auto end_piece = [&] {
    if (piece.size() < 2 || !taken.insert(piece).second) return;  // single bytes are in the vocabulary anyway
    pieces.push_back(std::move(piece));
    piece.clear();
  };
  for (const char c : text) {
    if (marked ? c == kPieceEnd : c == ' ' && piece.find_first_not_of(' ') != std::string::npos) end_piece();
    if (c != kPieceEnd) piece += c;
  }
  end_piece();
  if (!piece.empty()) {  // the last piece is in `taken`: join it with the previous piece
    CHECK(!pieces.empty()) << "an answer needs a piece that no other answer has: " << text;
    taken.erase(pieces.back());
    pieces.back() += piece;
    CHECK(taken.insert(pieces.back()).second);
  }
  return pieces;
}

// The successor of each token; a token without one ends the turn.
class Chain {
 public:
  explicit Chain(const std::vector<ScriptedAnswer>& answers) {
    for (size_t byte = 0; byte < kNBytes; ++byte) add(std::string(1, static_cast<char>(byte)), kNormal);
    add("<|im_start|>", kControl);
    im_end_ = add("<|im_end|>", kControl);
    std::vector<size_t> begins;
    for (size_t i = 0; i < answers.size(); ++i) begins.push_back(add(begin_text(i), kControl));
    nothing_ = add("<|nothing|>", kControl);
    follows_.push_back({nothing_, im_end_});
    std::set<std::string> taken;
    for (size_t i = 0; i < answers.size(); ++i) add_answer(answers[i], begins[i], taken);
  }

  static std::string begin_text(size_t answer) { return "<|say" + std::to_string(answer) + "|>"; }

  size_t size() const { return texts_.size(); }
  size_t im_end() const { return im_end_; }
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<int32_t>& types() const { return types_; }
  const std::vector<std::pair<size_t, size_t>>& follows() const { return follows_; }

 private:
  size_t add(const std::string& text, int32_t type) {
    texts_.push_back(type == kNormal ? bytes_to_alphabet(text) : text);
    types_.push_back(type);
    return texts_.size() - 1;
  }

  void add_answer(const ScriptedAnswer& answer, size_t begin, std::set<std::string>& taken) {
    std::vector<size_t> ids;
    for (const std::string& piece : pieces_of(answer.says, taken)) ids.push_back(add(piece, kNormal));
    if (answer.endless) {
      for (const size_t to : ids) follows_.push_back({begin, to});
      for (const size_t from : ids) {
        for (const size_t to : ids) follows_.push_back({from, to});
      }
      return;
    }
    size_t before = begin;
    for (const size_t id : ids) {
      follows_.push_back({before, id});
      before = id;
    }
    follows_.push_back({before, im_end_});
  }

  std::vector<std::string> texts_;
  std::vector<int32_t> types_;
  std::vector<std::pair<size_t, size_t>> follows_;
  size_t im_end_ = 0, nothing_ = 0;
};

// Every question ends with the header of its answer, so that it is rendered alike in the history and in its own prompt.
std::string chat_template(const std::vector<ScriptedAnswer>& answers) {
  std::string choice;
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string condition = answers[i].when.empty() ? "true" : answers[i].when;
    choice += std::string(i == 0 ? "{% if " : "{% elif ") + condition + " %}" + Chain::begin_text(i);
  }
  choice += "{% else %}<|nothing|>{% endif %}";
  return "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}<|im_end|>\n{% else %}"
         "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% if m.role == 'user' %}"
         "{% set q = m.content %}<|im_start|>assistant\n" +
         choice + "{% endif %}{% endif %}{% endfor %}";
}

void add_tensor(GgufWriter& writer, const std::string& name, size_t rows, size_t cols,
                const std::vector<std::pair<size_t, size_t>>& ones) {
  std::vector<float> values(rows * cols, 0.0f);
  for (const auto& [row, col] : ones) values[row * cols + col] = 1.0f;
  add_tensor_of(writer, name, DType::kF32, Shape{{rows, cols}, 2}, values);
}

void add_tensors(GgufWriter& writer, const Chain& chain, size_t dim) {
  std::vector<std::pair<size_t, size_t>> own, following;
  for (size_t id = 0; id < chain.size(); ++id) own.push_back({id, id});
  for (const auto& [from, to] : chain.follows()) following.push_back({to, from});
  const std::vector<float> norm(dim, 1.0f);
  const auto add_norm = [&](const char* name) { add_tensor_of(writer, name, DType::kF32, Shape{{dim}, 1}, norm); };
  add_tensor(writer, "token_embd.weight", chain.size(), dim, own);
  add_norm("output_norm.weight");
  add_tensor(writer, "output.weight", chain.size(), dim, following);
  add_norm("blk.0.attn_norm.weight");
  for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
    add_tensor(writer, "blk.0." + std::string(name) + ".weight", kHeadDim, dim, {});
  }
  add_tensor(writer, "blk.0.attn_output.weight", dim, kHeadDim, {});
  add_norm("blk.0.ffn_norm.weight");
  add_tensor(writer, "blk.0.ffn_gate.weight", kFfnDim, dim, {});
  add_tensor(writer, "blk.0.ffn_up.weight", kFfnDim, dim, {});
  add_tensor(writer, "blk.0.ffn_down.weight", dim, kFfnDim, {});
}

}  // namespace

void write_scripted_model(const std::string& path, const std::vector<ScriptedAnswer>& answers, size_t context) {
  const Chain chain(answers);
  const size_t dim = (chain.size() + 63) / 64 * 64;
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_string("general.name", "scripted");
  const auto count = [&](const char* key, size_t value) {
    writer.add_u32(std::string("llama.") + key, static_cast<uint32_t>(value));
  };
  count("block_count", 1);
  count("embedding_length", dim);
  count("feed_forward_length", kFfnDim);
  count("attention.head_count", 1);
  count("attention.head_count_kv", 1);
  count("attention.key_length", kHeadDim);
  count("attention.value_length", kHeadDim);
  count("context_length", context);
  writer.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.add_f32("llama.rope.freq_base", 10000.0f);
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", "gpt-2");
  writer.add_strings("tokenizer.ggml.tokens", chain.texts());
  writer.add_i32s("tokenizer.ggml.token_type", chain.types());
  writer.add_strings("tokenizer.ggml.merges", std::vector<std::string>());
  writer.add_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(chain.im_end()));
  writer.add_string("tokenizer.chat_template", chat_template(answers));
  add_tensors(writer, chain, dim);
  const Status status = writer.write(path);
  CHECK(status.ok()) << status.message();
}

}  // namespace ibid
