#include "tokenizer/loading/tokenizer_loaders.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/text.h"
#include "tokenizer/loading/gguf_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace ibid {
namespace {

std::string gguf_family(std::string_view model) {
  if (model == "gpt2") return "byte-level BPE";
  if (model == "llama" || model == "gemma4") return "SentencePiece BPE";
  if (model == "t5") return "Unigram";
  if (model == "bert") return "WordPiece";
  return std::string(model);
}

// Appends the type of a component of tokenizer.json; for a Sequence, the types of its steps.
void add_types(const Json& part, std::vector<std::string>& types) {
  if (!part.is_object()) return;
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string()) return;
  if (*type != "Sequence") {
    types.push_back(type->get<std::string>());
    return;
  }
  for (const char* list : {"pretokenizers", "decoders", "normalizers"}) {
    const auto steps = part.find(list);
    if (steps == part.end() || !steps->is_array()) continue;
    for (const Json& step : *steps) add_types(step, types);
  }
}

std::vector<std::string> types_of(const Json& json, const char* part) {
  std::vector<std::string> types;
  if (const auto found = json.find(part); found != json.end()) add_types(*found, types);
  return types;
}

bool holds(const std::vector<std::string>& types, std::string_view type) {
  return std::ranges::find(types, type) != types.end();
}

}  // namespace

TokenizerKind json_tokenizer_kind(const Json& root) {
  const auto model = root.find("model");
  std::string type = "BPE";
  if (model != root.end() && model->is_object()) {
    const auto named = model->find("type");
    if (named != model->end() && named->is_string()) type = named->get<std::string>();
  }
  const std::vector<std::string> pre = types_of(root, "pre_tokenizer");
  TokenizerKind kind{type, ""};
  if (type == "BPE") {
    const bool bytes = holds(pre, "ByteLevel") || holds(types_of(root, "decoder"), "ByteLevel");
    kind.family = bytes ? "byte-level BPE" : "SentencePiece BPE";
  }
  for (const std::string& step : pre) kind.pre_tokenizer += (kind.pre_tokenizer.empty() ? "" : ", ") + step;
  return kind;
}

std::optional<TokenizerKind> gguf_tokenizer_kind(const ModelFile& file) {
  const auto model = file.get_string("tokenizer.ggml.model");
  if (!model.ok() || !*model) return std::nullopt;
  const auto pre = file.get_string("tokenizer.ggml.pre");
  return TokenizerKind{gguf_family(**model), pre.ok() && *pre ? std::string(**pre) : std::string()};
}

namespace {

Result<std::unique_ptr<Tokenizer>> load(const ModelFile& file, std::optional<TokenizerKind>& kind) {
  TRY_ASSIGN(const std::optional<std::string> json, file.companion("tokenizer.json"));
  if (json) return load_json_tokenizer(file, *json, kind);
  kind = gguf_tokenizer_kind(file);
  if (file.container() == Container::kGguf) return load_gguf_tokenizer(file);
  return {ErrorCode::kMissingKey, file.path() +
                                      ": tokenizer.json is missing beside the weights; fetch it from the "
                                      "source of the model"};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelFile& file, std::optional<TokenizerKind>& kind) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = load(file, kind);
  // A change of the file while it was read may be the cause of the error, so report the change first.
  TRY(file.check_unchanged());
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelFile& file) {
  std::optional<TokenizerKind> kind;
  return load_tokenizer(file, kind);
}

// --- Compares two tokenizers over a few thousand texts.

namespace {

// Texts for which tokenizers differ: white space of every kind and length, contractions, digits, scripts with and
// without spaces, marks, punctuation, characters beyond 16 bits, and the empty text.
constexpr std::string_view kTexts[] = {"",
                                       " ",
                                       "  ",
                                       "   x",
                                       "a  b   c",
                                       " leading",
                                       "trailing ",
                                       "\n",
                                       "\n\n",
                                       "\n\n\n  x",
                                       "\r\n\t \n",
                                       "a\tb\u00a0c\u3000d",
                                       "Hello, world! It's I'M we'll THEY'VE don't",
                                       "0 12 345 6789 1234567890 3.14159 1,000,000 \u0661\u0662\u00bd",
                                       "int main(void) { return x[0] += --i; } // <tag a=\"b\"/> ...!!!???",
                                       "_snake_case camelCase HTTPServer",
                                       "na\u00efve caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m stra\u00dfe",
                                       "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
                                       "\u03ba\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1",
                                       "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
                                       "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
                                       "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3053\u3093\u306b\u3061\u306f\uc548\ub155",
                                       "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
                                       "a\u0301\u0302\u0303 \ufb01 \u212b \uff21",
                                       "\u2581\u2581x \u2581y",
                                       "<0x41> [PAD1] <unk>",
                                       "    def f():\n        return 1\n\n\n",
                                       "\x01\x7f\xc2\x80",
                                       "\xff\xfe\x80 broken"};

class Comparison {
 public:
  Comparison(const Tokenizer& wanted, const Tokenizer& got, std::string path)
      : wanted_(wanted), got_(got), path_(std::move(path)) {}

  Status check() const {
    TRY(check_ids());
    for (const std::string_view text : kTexts) TRY(check_text(text));
    for (size_t i = 0; i < wanted_.vocab_size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      const std::string text(wanted_.token_bytes(id));
      if (wanted_.is_special(id)) TRY(check_text("a  " + text + "  b" + text + "\n" + text));
    }
    return check_random_texts();
  }

 private:
  Status differs(const std::string& what) const {
    return {ErrorCode::kUnsupported, path_ + ": GGUF cannot represent its tokenizer: " + what};
  }

  Status check_ids() const {
    for (size_t i = 0; i < wanted_.vocab_size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      if (wanted_.token_bytes(id) == got_.token_bytes(id) && wanted_.is_special(id) == got_.is_special(id)) continue;
      return differs("token " + std::to_string(i) + " " + in_quotes(wanted_.token_bytes(id)) + " would become " +
                     in_quotes(got_.token_bytes(id)) + (got_.is_special(id) ? ", special" : ", not special"));
    }
    std::vector<TokenId> ends = wanted_.end_of_turn(), got = got_.end_of_turn();
    std::ranges::sort(ends);
    std::ranges::sort(got);
    if (wanted_.bos() != got_.bos() || wanted_.eos() != got_.eos()) return differs("BOS or EOS would differ");
    return ends == got ? Status() : differs("the end-of-turn tokens would differ");
  }

  Status check_text(std::string_view text) const {
    for (const TextOrigin origin : {TextOrigin::kTemplate, TextOrigin::kInput}) {
      const Tokens ids = wanted_.encode(text, origin, true);
      if (ids != got_.encode(text, origin, true)) return differs("other tokens for the text " + in_quotes(text));
      if (wanted_.decode(ids) != got_.decode(ids)) return differs("another decoding of " + in_quotes(text));
    }
    return {};
  }

  // Compares both tokenizers on random texts, in which tokens follow each other that kTexts does not combine.
  Status check_random_texts() const {
    constexpr int kNTexts = 2000, kNTokens = 12;
    uint64_t state = 1;
    for (int i = 0; i < kNTexts; ++i) {
      std::string text;
      for (int j = 0; j < kNTokens; ++j) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        text += wanted_.token_bytes(static_cast<TokenId>((state >> 33) % wanted_.vocab_size()));
      }
      TRY(check_text(text));
    }
    return {};
  }

  const Tokenizer& wanted_;
  const Tokenizer& got_;
  std::string path_;
};

}  // namespace

Status check_same_tokenizer(const ModelFile& wanted, const ModelFile& got) {
  TRY_ASSIGN(const std::optional<std::string> json, wanted.companion("tokenizer.json"));
  if (!json) return {};
  TRY_ASSIGN(const std::unique_ptr<Tokenizer> a, load_tokenizer(wanted));
  TRY_ASSIGN(const std::unique_ptr<Tokenizer> b, load_tokenizer(got));
  return Comparison(*a, *b, wanted.path()).check();
}

}  // namespace ibid
