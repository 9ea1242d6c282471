#include "tokenizer/loading/gguf_vocabulary.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json_members.h"
#include "base/text.h"
#include "tokenizer/loading/chat_template_text.h"
#include "tokenizer/loading/json_tokenizer.h"
#include "tokenizer/loading/special_tokens.h"
#include "tokenizer/models/piece_model.h"
#include "tokenizer/tokenizer.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

using enum GgufTokenType;

bool is_byte_token(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
         text.find_first_not_of("0123456789ABCDEF", 3) == 5;
}

class VocabularyWriter {
 public:
  VocabularyWriter(const JsonSource& source, const JsonTokenizer& json, size_t n_rows, GgufWriter& out)
      : source_(source), json_(json), out_(out), texts_(std::max(n_rows, json.vocab_size())), types_(texts_.size()) {}

  Status write() {
    const bool pieces = !json_.pipeline.byte_level;
    if (json_.is_unigram()) return write_unigram();
    return pieces ? write_pieces() : write_byte_level();
  }

  Status write_ids(const Tokenizer& tokenizer) {
    const auto write_id = [this](const char* name, std::optional<TokenId> id) {
      if (id) out_.add_u32("tokenizer.ggml." + std::string(name) + "_token_id", static_cast<uint32_t>(*id));
    };
    write_id("bos", tokenizer.bos());
    write_id("eos", tokenizer.eos());
    std::vector<TokenId> ends = tokenizer.end_of_turn();
    std::erase_if(ends, [&](TokenId id) { return tokenizer.eos() == id; });
    if (!ends.empty()) write_id("eot", ends[0]);
    if (ends.size() > 1) write_id("eom", ends[1]);
    TRY(write_around("bos", tokenizer.bos(), json_.pipeline.prefix));
    return write_around("eos", tokenizer.eos(), json_.pipeline.suffix);
  }

 private:
  Status cannot(const std::string& what) const {
    return source_.error(ErrorCode::kUnsupported, "GGUF cannot represent " + what);
  }

  Status write_around(const char* name, std::optional<TokenId> id, const std::vector<int64_t>& around) {
    const bool is_there = !around.empty();
    if (is_there && (around.size() != 1 || !id || around.front() != *id)) {
      return cannot(std::string("tokens other than ") + name + " at an end of a text");
    }
    out_.add_bool("tokenizer.ggml.add_" + std::string(name) + "_token", is_there);
    return {};
  }

  void set(TokenId id, std::string_view text, GgufTokenType type) {
    texts_[static_cast<size_t>(id)] = text;
    types_[static_cast<size_t>(id)] = static_cast<int32_t>(type);
  }

  // Collects the texts of the model's vocabulary, then of the added tokens, then of the padding.
  void set_tokens(bool pieces) {
    for (const VocabularyEntry& entry : json_.vocabulary) {
      set(entry.id, entry.text, pieces && is_byte_token(entry.text) ? kByte : kNormal);
    }
    for (const AddedToken& token : json_.added) {
      // In the texts of added tokens, spaces are not replaced by space marks. Added tokens that are runs of space marks
      // are needed only for merges, so they stay normal tokens.
      const bool is_run = pieces && !token.special && token.text.find(kSpaceMark) != std::string::npos;
      if (!is_run) set(token.id, token.text, token.special ? kControl : kUserDefined);
    }
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (types_[i] == 0) set(static_cast<TokenId>(i), "[PAD" + std::to_string(i) + "]", kUnused);
    }
  }

  void write_tokens(std::string_view model, std::string_view pretokenizer) {
    out_.add_string("tokenizer.ggml.model", model);
    out_.add_string("tokenizer.ggml.pre", pretokenizer);
    out_.add_strings("tokenizer.ggml.tokens", texts_);
    out_.add_i32s("tokenizer.ggml.token_type", types_);
  }

  Status write_byte_level() {
    const std::vector<NormalizerStep>& steps = json_.pipeline.normalizer;
    const bool nfc = steps.size() == 1 && steps[0].kind == NormalizerStep::Kind::kNfc;
    if ((!nfc && !steps.empty()) || !json_.pipeline.rewriter.empty()) return cannot("this normalizer");
    const bool ignore_merges = json_flag(json_.model, "ignore_merges", false);
    const PretokenizerFamily* family = find_gguf_pretokenizer(json_.pipeline.split, nfc, ignore_merges);
    if (family == nullptr) {
      std::string patterns;
      for (const SplitStep& step : json_.pipeline.split) patterns += (patterns.empty() ? "" : " ") + step.pattern;
      return cannot("the pre-tokenizer " + in_quotes(patterns) + (nfc ? " after NFC" : "") +
                    (ignore_merges ? " with ignore_merges" : "") + ": tokenizer.ggml.pre has no name for it");
    }
    set_tokens(false);
    write_tokens("gpt2", gguf_name_of(*family));
    std::vector<std::string> merges;
    for (const TextMerge& merge : json_.merges) {
      merges.push_back(std::string(merge.left) + " " + std::string(merge.right));
    }
    out_.add_strings("tokenizer.ggml.merges", merges);
    return {};
  }

  // Returns the value of the key add_space_prefix. Error: the tokenizer has steps that GGUF's keys cannot express.
  Result<bool> reads_prefix() const {
    using Kind = NormalizerStep::Kind;
    std::vector<NormalizerStep> steps = json_.pipeline.normalizer;
    steps.insert(steps.end(), json_.pipeline.rewriter.begin(), json_.pipeline.rewriter.end());
    bool replaces = false, prefix = false, other = false;
    for (const NormalizerStep& step : steps) {
      const bool is_mark = step.to == kSpaceMark;
      if (step.kind == Kind::kReplace && step.from == " " && is_mark) {
        replaces = true;
      } else if (step.kind == Kind::kPrepend && is_mark) {
        prefix = true;
      } else {
        other = true;
      }
    }
    if (!replaces || other || json_.pipeline.cut != PieceCut::kNowhere || !json_.pipeline.split.empty()) {
      return cannot("the steps before SentencePiece's merges");
    }
    return prefix;
  }

  Status write_pieces() {
    if (!json_flag(json_.model, "byte_fallback", false)) return cannot("BPE over characters without byte_fallback");
    TRY_ASSIGN(const bool prefix, reads_prefix());
    TRY_ASSIGN(const std::vector<float> scores, scores_of_merges());
    set_tokens(true);
    const std::optional<std::string> unknown = json_text(json_.model, "unk_token");
    for (size_t i = 0; unknown && i < texts_.size(); ++i) {
      if (texts_[i] != *unknown) continue;
      types_[i] = static_cast<int32_t>(kUnknown);
      out_.add_u32("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(i));
    }
    write_tokens("llama", "default");
    out_.add_f32s("tokenizer.ggml.scores", scores);
    out_.add_bool("tokenizer.ggml.add_space_prefix", prefix);
    return {};
  }

  // Writes T5's steps, each in a key of its own: the table of replacements and the steps for spaces. Returns the value
  // of the key add_space_prefix.
  Result<bool> write_unigram_pipeline() {
    using Kind = NormalizerStep::Kind;
    const JsonPipeline& pipeline = json_.pipeline;
    std::span<const NormalizerStep> steps = pipeline.normalizer;
    if (!steps.empty() && steps[0].kind == Kind::kCharsmap) {
      const std::string bytes = steps[0].charsmap.bytes();
      out_.add_i8s("tokenizer.ggml.precompiled_charsmap", std::vector<int8_t>(bytes.begin(), bytes.end()));
      steps = steps.subspan(1);
    }
    const bool few_spaces = steps.size() == 2 && steps[0].kind == Kind::kStrip && !steps[0].left && steps[0].right &&
                            steps[1].kind == Kind::kCollapse && steps[1].to == kSpaceMark;
    if (!few_spaces && !steps.empty()) return cannot("this normalizer of a Unigram model");
    const std::vector<NormalizerStep>& marks = pipeline.rewriter;
    const bool replaces = !marks.empty() && marks[0].kind == Kind::kReplace && marks[0].from == " " &&
                          marks[0].to == kSpaceMark && pipeline.cut == PieceCut::kSpaceMarks && pipeline.split.empty();
    const bool prefix = marks.size() == 2 && marks[1].kind == Kind::kPrepend && marks[1].to == kSpaceMark &&
                        marks[1].unless_there && !marks[1].first_only;
    if (!replaces || marks.size() != (prefix ? 2 : 1)) return cannot("the pre-tokenizer of this Unigram model");
    out_.add_bool("tokenizer.ggml.remove_extra_whitespaces", few_spaces);
    return prefix;
  }

  // Returns the scores of all tokens. Errors: a score is not exact in 32 bits; an added token has a score other than 0,
  // which readers of GGUF ignore.
  Result<std::vector<float>> unigram_scores() const {
    std::vector<float> scores(texts_.size(), 0.0f);
    std::unordered_map<std::string_view, TokenId> ids;
    for (const VocabularyEntry& entry : json_.vocabulary) {
      ids.emplace(entry.text, entry.id);
      const float score = static_cast<float>(entry.score);
      if (double{score} != entry.score || (score != 0 && is_added(entry.text))) {
        return cannot("the score of the token " + in_quotes(entry.text));
      }
      scores[static_cast<size_t>(entry.id)] = score;
    }
    for (const AddedToken& token : json_.added) {
      if (ids.contains(token.text)) continue;
      return cannot("that " + in_quotes(token.text) + " is not a token of the Unigram model");
    }
    return scores;
  }

  Status write_unigram() {
    TRY_ASSIGN(const bool prefix, write_unigram_pipeline());
    TRY_ASSIGN(const std::vector<float> scores, unigram_scores());
    const Json* unknown = member(json_.model, "unk_id");  // load_tokenizer() has checked that unk_id is a number
    const auto id = unknown->get<size_t>();
    const bool has_bytes = json_flag(json_.model, "byte_fallback", false);
    set_tokens(has_bytes);
    types_[id] = static_cast<int32_t>(kUnknown);
    write_tokens("t5", "default");
    out_.add_u32("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(id));
    out_.add_f32s("tokenizer.ggml.scores", scores);
    out_.add_bool("tokenizer.ggml.add_space_prefix", prefix);
    return {};
  }

  // Returns scores that are equivalent to the merges: the score of a token is minus the rank of the first merge that
  // results in the token. Tokens whose merges are interleaved get the same score. Scores and merges are equivalent if
  // every pair of tokens that spells a token has a merge.
  Result<std::vector<float>> scores_of_merges() const {
    struct Merges {
      size_t first = 0, last = 0, n = 0;  // ranks of the first and last merge into a token; number of these
    };
    std::unordered_map<std::string, Merges> merges_of;
    size_t rank = 0;
    std::string together;
    for (const TextMerge& merge : json_.merges) {
      together.assign(merge.left).append(merge.right);
      Merges& merges = merges_of[together];
      if (merges.n++ == 0) merges.first = rank;
      merges.last = rank++;
    }
    std::vector<Merges*> by_rank;
    for (auto& [text, merges] : merges_of) by_rank.push_back(&merges);
    std::ranges::sort(by_rank, {}, &Merges::first);
    for (size_t i = 1; i < by_rank.size(); ++i) {
      if (by_rank[i]->first > by_rank[i - 1]->last) continue;
      by_rank[i]->first = by_rank[i - 1]->first;
      by_rank[i]->last = std::max(by_rank[i]->last, by_rank[i - 1]->last);
    }
    std::vector<float> scores(texts_.size(), 0.0f);
    std::unordered_map<std::string_view, TokenId> ids;
    for (const VocabularyEntry& entry : json_.vocabulary) ids.emplace(entry.text, entry.id);
    for (const VocabularyEntry& entry : json_.vocabulary) {
      size_t n_pairs = 0;
      for (size_t cut = 1; cut < entry.text.size(); ++cut) {
        n_pairs += ids.contains(entry.text.substr(0, cut)) && ids.contains(entry.text.substr(cut)) ? 1 : 0;
      }
      const auto found = merges_of.find(std::string(entry.text));
      const size_t n_merges = found == merges_of.end() ? 0 : found->second.n;
      const bool is_special = is_byte_token(entry.text) || is_added(entry.text);
      if (n_merges != n_pairs && !is_special) {
        return cannot(std::to_string(n_merges) + " of " + std::to_string(n_pairs) + " possible merges of the token " +
                      in_quotes(entry.text) + " as scores");
      }
      const size_t order = found == merges_of.end() ? rank : found->second.first;
      scores[static_cast<size_t>(entry.id)] = -static_cast<float>(order);
    }
    return scores;
  }

  bool is_added(std::string_view text) const {
    return std::ranges::find(json_.added, text, &AddedToken::text) != json_.added.end();
  }

  const JsonSource& source_;
  const JsonTokenizer& json_;
  GgufWriter& out_;
  std::vector<std::string> texts_;
  std::vector<int32_t> types_;
};

}  // namespace

Status write_gguf_vocabulary(const ModelFile& file, size_t n_rows, GgufWriter& out) {
  TRY_ASSIGN(const std::optional<std::string> text, file.companion("tokenizer.json"));
  if (!text) {
    out.add_string("tokenizer.ggml.model", "none");
    return {};
  }
  const JsonSource source = json_source(file);
  TRY_ASSIGN(const JsonDocument document, JsonDocument::parse(*text, source.name));
  TRY_ASSIGN(const SpecialTokens special, read_special_tokens(file));
  TRY_ASSIGN(const JsonTokenizer json, read_json_tokenizer(file, special, document));
  TRY_ASSIGN(const std::unique_ptr<Tokenizer> tokenizer, load_tokenizer(file));
  if (json.vocab_size() > n_rows) {
    return source.error(ErrorCode::kBadVocab, "the vocabulary has " + std::to_string(json.vocab_size()) +
                                                  " tokens, the embedding only " + std::to_string(n_rows) + " rows");
  }
  VocabularyWriter writer(source, json, n_rows, out);
  TRY(writer.write());
  TRY(writer.write_ids(*tokenizer));
  TRY_ASSIGN(const std::optional<ChatTemplateText> chat_template, find_chat_template(file));
  if (!chat_template) return {};
  out.add_string("tokenizer.chat_template", chat_template->source);
  if (!chat_template->source_for_tools.empty()) {
    out.add_strings("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});
    out.add_string("tokenizer.chat_template.tool_use", chat_template->source_for_tools);
  }
  return {};
}

}  // namespace ibid
