#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "tokenizer/loading/gguf_vocabulary.h"
#include "tokenizer/loading/tokenizer_builder.h"
#include "tokenizer/loading/tokenizer_loaders.h"

namespace ibid {
namespace {

Status error(const ModelFile& file, ErrorCode code, const std::string& words) {
  return {code, file.path() + ": " + words};
}

Status missing(const ModelFile& file, std::string_view key) {
  return error(file, ErrorCode::kMissingKey, std::string(key) + " is missing");
}

// Reads the pre-tokenizer. Old files do not name one. llama.cpp then uses "default", which may split differently than
// in the model's training.
Result<const PretokenizerFamily*> read_pretokenizer(const ModelFile& file, TokenizerBuilder& builder) {
  constexpr std::string_view kKey = "tokenizer.ggml.pre";
  TRY_ASSIGN(const std::optional<std::string_view> name, file.get_string(kKey));
  const bool named = name && !name->empty();
  if (!named) {
    builder.warn(std::string(kKey) + " is missing, texts are split by the pre-tokenizer 'default'; answers may be " +
                 "worse than those of a file that names its own");
  }
  const PretokenizerFamily* family = find_pretokenizer_by_gguf_name(named ? *name : "default");
  if (family == nullptr) {
    return error(file, ErrorCode::kUnsupported, "the pre-tokenizer " + in_quotes(*name) + " is not supported");
  }
  return family;
}

// Checks that the embedding has a row for every token. Rows beyond the vocabulary are padding.
Status check_embedding(const ModelFile& file, size_t n_tokens) {
  const TensorView* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.rank < 2) return {};
  const uint64_t n_rows = embedding->shape[embedding->shape.rank - 2];
  if (n_rows >= n_tokens) return {};
  return error(file, ErrorCode::kBadVocab,
               "the vocabulary has " + std::to_string(n_tokens) + " tokens, token_embd.weight only " +
                   std::to_string(n_rows) + " rows");
}

// Phi-3's added tokens strip the white space after them, with three exceptions. GGUF has no key for this, so Phi-3 is
// recognised by the model's name, as in llama.cpp.
void set_strips(std::string_view model_name, std::vector<AddedToken>& added) {
  std::string lower(model_name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower.find("phi-3") == lower.npos && lower.find("phi3") == lower.npos) return;
  for (AddedToken& token : added) {
    token.rstrip = token.text != "<unk>" && token.text != "<s>" && token.text != "<|endoftext|>";
  }
}

using enum GgufTokenType;

// Adds a token by its type. Builder: ByteLevelBuilder or PieceBuilder.
template <typename Builder>
Status add_token(Builder& builder, TokenId id, std::string_view text, int64_t type) {
  switch (GgufTokenType{static_cast<int32_t>(type)}) {
    case kNormal:
    case kUnused: return builder.add_model_token(id, text);
    case kUnknown:
    case kControl:
    case kUserDefined:
      return builder.add_added_token(
          {.text = std::string(text), .id = id, .special = GgufTokenType{static_cast<int32_t>(type)} != kUserDefined});
    case kByte: return builder.add_byte_token(id, text);
    default: builder.note(TokenDefect::kUnknownType, id, text); return builder.add_model_token(id, text);
  }
}

// Checks the number of values. Error: kBadVocab if `values` exist but do not have one entry for each token of the file.
template <typename Number>
Status check_length(const ModelFile& file, std::string_view key, const std::optional<std::vector<Number>>& values,
                    size_t n_tokens) {
  if (!values || values->size() == n_tokens) return {};
  return error(file, ErrorCode::kBadVocab,
               std::string(key) + " has " + std::to_string(values->size()) + " entries for " +
                   std::to_string(n_tokens) + " tokens");
}

constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kUnknownKey = "tokenizer.ggml.unknown_token_id";

// Keys of special tokens. If a file with a SentencePiece vocabulary lacks the key, the token has the id given here (-1:
// none).
constexpr std::pair<std::string_view, int64_t> kSpecialIds[] = {{kUnknownKey, 0},
                                                                {"tokenizer.ggml.bos_token_id", 1},
                                                                {"tokenizer.ggml.eos_token_id", 2},
                                                                {"tokenizer.ggml.eot_token_id", -1},
                                                                {"tokenizer.ggml.eom_token_id", -1}};

// Returns the words of a template that have the form of control tokens.
std::unordered_set<std::string_view> control_words(std::string_view source) {
  constexpr size_t kMaxBytes = 128;
  std::unordered_set<std::string_view> words;
  for (size_t begin = source.find('<'); begin != source.npos; begin = source.find('<', begin + 1)) {
    const std::string_view rest = source.substr(begin, kMaxBytes);
    const std::string_view word = rest.substr(0, rest.find('>') + 1);  // empty if there is no '>'
    if (looks_like_control(word)) words.insert(word);
  }
  return words;
}

// Corrects the types of tokens. A user-defined token becomes a control token in two cases: its text ends turns in some
// model, or the chat template contains it in the form of a control token. If the file has no types, this applies to
// every token. A normal token whose text ends turns keeps its type, but becomes special, so that message text cannot
// become this token.
Status set_control_types(const ModelFile& file, const std::vector<std::string_view>& tokens, bool has_types,
                         std::vector<int64_t>& types, TokenizerBuilder& builder) {
  TRY_ASSIGN(const std::optional<std::string_view> chat_template, file.get_string("tokenizer.chat_template"));
  const std::unordered_set<std::string_view> written = control_words(chat_template.value_or(""));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i];
    const bool is_normal = types[i] == static_cast<int64_t>(kNormal);
    if (!is_normal && types[i] != static_cast<int64_t>(kUserDefined)) continue;
    if (!text.starts_with('<') && !text.ends_with(']') && !text.ends_with('>')) continue;  // skips most tokens
    if (!is_turn_end(text) && (!written.contains(text) || (is_normal && has_types))) continue;
    if (is_normal && has_types) {
      builder.pipeline().special[i] = true;
    } else {
      types[i] = static_cast<int64_t>(kControl);
    }
    if (has_types) builder.note(TokenDefect::kWrongType, static_cast<TokenId>(i), text);
  }
  return {};
}

// Returns the type of each token. If the file has no types: byte tokens are recognised by their text (if has_bytes),
// special tokens by the keys that name them, and all others are normal. `tokens` may lack the padding at the end of the
// file's list.
Result<std::vector<int64_t>> read_types(const ModelFile& file, const std::vector<std::string_view>& tokens,
                                        bool has_bytes, TokenizerBuilder& builder) {
  TRY_ASSIGN(std::optional<std::vector<int64_t>> types, file.get_ints(kTypesKey));
  const bool has_types = types.has_value();
  if (!has_types) {
    types.emplace(tokens.size(), static_cast<int64_t>(kNormal));
    for (size_t i = 0; has_bytes && i < tokens.size(); ++i) {
      if (TokenizerBuilder::parse_byte_token(tokens[i])) (*types)[i] = static_cast<int64_t>(kByte);
    }
    for (const auto& [key, usual] : kSpecialIds) {
      TRY_ASSIGN(const std::optional<int64_t> named, file.get_int(key));
      const int64_t id = named.value_or(has_bytes ? usual : -1);
      if (id < 0 || static_cast<uint64_t>(id) >= tokens.size()) continue;
      if (!named && !tokens[static_cast<size_t>(id)].starts_with('<')) continue;
      const bool is_unknown = key == kUnknownKey;
      (*types)[static_cast<size_t>(id)] = static_cast<int64_t>(is_unknown ? kUnknown : kControl);
    }
    builder.warn(std::string(kTypesKey) + " is missing, control tokens are recognised by their texts");
  }
  types->resize(tokens.size());
  TRY(set_control_types(file, tokens, has_types, *types, builder));
  return *std::move(types);
}

// Returns the tokens without trailing padding: unused tokens named "[PADn]" (n: their id), with which llama.cpp's
// converters make the list as long as the embedding. If they became tokens and a model sampled one, its name would be
// shown.
Result<std::vector<std::string_view>> without_padding(const ModelFile& file, std::vector<std::string_view> tokens) {
  TRY_ASSIGN(const std::optional<std::vector<int64_t>> types, file.get_ints(kTypesKey));
  TRY(check_length(file, kTypesKey, types, tokens.size()));
  TRY_ASSIGN(const std::optional<std::vector<double>> scores, file.get_floats(kScoresKey));
  TRY(check_length(file, kScoresKey, scores, tokens.size()));
  const auto is_padding = [&](size_t i) {
    return (*types)[i] == static_cast<int64_t>(kUnused) && tokens[i] == "[PAD" + std::to_string(i) + "]";
  };
  while (types && tokens.size() > 1 && is_padding(tokens.size() - 1)) tokens.pop_back();
  return tokens;
}

template <typename Builder>
Status add_tokens(const ModelFile& file, Builder& builder, const std::vector<std::string_view>& tokens) {
  constexpr bool kHasBytes = std::is_same_v<Builder, PieceBuilder>;
  TRY_ASSIGN(const std::vector<int64_t> types, read_types(file, tokens, kHasBytes, builder));
  for (size_t i = 0; i < tokens.size(); ++i) {
    TRY(add_token(builder, static_cast<TokenId>(i), tokens[i], types[i]));
  }
  return {};
}

Result<std::vector<double>> read_scores(const ModelFile& file, size_t n_tokens) {
  TRY_ASSIGN(std::optional<std::vector<double>> scores, file.get_floats(kScoresKey));
  if (!scores) return missing(file, kScoresKey);
  scores->resize(n_tokens);
  return *std::move(scores);
}

// Adds the merges, each split at a space. The left side has at least `least_left` bytes, because it may begin with a
// space if the vocabulary writes spaces literally.
Status add_merges(const ModelFile& file, size_t least_left, TokenizerBuilder& builder) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  TRY_ASSIGN(const std::optional<std::vector<std::string_view>> merges, file.get_strings(kKey));
  if (!merges) return missing(file, kKey);
  std::vector<TextMerge> sides;
  sides.reserve(merges->size());
  for (const std::string_view merge : *merges) {
    const size_t space = merge.find(' ', least_left);
    if (space == std::string_view::npos) {
      return error(file, ErrorCode::kBadMerge, "the merge " + in_quotes(merge) + " does not have two sides");
    }
    sides.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return builder.add_merges(sides);
}

// Reads the id of a special token. If the id is not in the vocabulary, warns and returns nullopt.
Result<std::optional<TokenId>> read_id(const ModelFile& file, TokenizerBuilder& builder, std::string_view key) {
  TRY_ASSIGN(const std::optional<int64_t> id, file.get_int(key));
  return id ? builder.usable_id(*id, key) : std::nullopt;
}

// Adds `id` before or after every text if the file's key requires it, or if the key is missing and by_default is true.
Status add_around(const ModelFile& file, std::string_view key, bool by_default, std::optional<TokenId> id,
                  TokenizerBuilder& builder, Tokens& around) {
  TRY_ASSIGN(const std::optional<bool> wanted, file.get_bool(key));
  if (!wanted.value_or(by_default)) return {};
  if (id) {
    around.push_back(*id);
  } else if (wanted) {
    builder.warn(std::string(key) + " is true, but the file does not name that token; none is added");
  }
  return {};
}

// Defaults of a tokenizer family for keys that the file lacks.
struct Defaults {
  bool add_bos = false, add_eos = false;
  std::optional<TokenId> bos = {}, eos = {};
};

// Reads the special token ids, and the tokens added around a text.
Status read_special_ids(const ModelFile& file, const Defaults& defaults, TokenizerBuilder& builder) {
  PipelineSpec& spec = builder.pipeline();
  TRY_ASSIGN(spec.bos, read_id(file, builder, "tokenizer.ggml.bos_token_id"));
  TRY_ASSIGN(spec.eos, read_id(file, builder, "tokenizer.ggml.eos_token_id"));
  const auto fill = [&spec](std::optional<TokenId>& id, std::optional<TokenId> otherwise) {
    const bool there = otherwise && static_cast<size_t>(*otherwise) < spec.special.size();
    if (!id && there && spec.special[static_cast<size_t>(*otherwise)]) id = otherwise;
  };
  fill(spec.bos, defaults.bos);
  fill(spec.eos, defaults.eos);
  for (const std::string_view key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    TRY_ASSIGN(const std::optional<TokenId> id, read_id(file, builder, key));
    if (id) spec.end_of_turn.push_back(*id);
  }
  TRY(add_around(file, "tokenizer.ggml.add_bos_token", defaults.add_bos, spec.bos, builder, spec.prefix));
  return add_around(file, "tokenizer.ggml.add_eos_token", defaults.add_eos, spec.eos, builder, spec.suffix);
}

Result<std::unique_ptr<Tokenizer>> load_byte_level(const ModelFile& file, const std::vector<std::string_view>& tokens) {
  ByteLevelBuilder builder(file.path(), tokens.size());
  TRY_ASSIGN(const PretokenizerFamily* family, read_pretokenizer(file, builder));
  TRY(add_tokens(file, builder, tokens));
  TRY(add_merges(file, 0, builder));
  ByteLevelSpec& spec = builder.spec();
  spec.scan = family->scan;
  if (spec.scan == nullptr) {
    TRY_ASSIGN(spec.split, StagedSplit::create(split_steps(family->signature)));
  }
  if (family->nfc) spec.normalizer = Normalizer({{.kind = NormalizerStep::Kind::kNfc}});
  spec.bpe.ignore_merges = family->ignore_merges;
  TRY(read_special_ids(file, {.add_bos = family->add_bos}, builder));
  return builder.finish();
}

// Returns a normalizer that writes U+2581 for spaces and, with `prefix`, adds U+2581 before every section.
Normalizer space_marks(bool prefix) {
  using Kind = NormalizerStep::Kind;
  std::vector<NormalizerStep> steps;
  if (prefix) steps.push_back({.kind = Kind::kPrepend, .to = std::string(kSpaceMark)});
  steps.push_back({.kind = Kind::kReplace, .from = " ", .to = std::string(kSpaceMark)});
  return Normalizer(std::move(steps));
}

Result<std::unique_ptr<PieceBuilder>> piece_builder(const ModelFile& file, const std::vector<std::string_view>& tokens,
                                                    bool prefix) {
  constexpr std::string_view kKey = "tokenizer.ggml.add_space_prefix";
  TRY_ASSIGN(const std::optional<bool> stored_flag, file.get_bool(kKey));
  auto builder = std::make_unique<PieceBuilder>(file.path(), tokens.size(),
                                                PieceBuilder::Display{{{std::string(kSpaceMark), " "}}, true});
  TRY(add_tokens(file, *builder, tokens));
  PieceSpec& spec = builder->spec();
  prefix = stored_flag.value_or(prefix);
  spec.normalizer = space_marks(prefix);
  if (prefix) spec.first_token = FirstToken::kWithoutOneSpace;
  TRY_ASSIGN(const std::optional<std::string_view> name, file.get_string("general.name"));
  set_strips(name.value_or(""), spec.added);
  return builder;
}

// Sets the token for characters that have no token.
Status read_unknown(const ModelFile& file, PieceBuilder& builder, std::optional<TokenId> otherwise) {
  CharBpeModel& bpe = builder.bpe();
  bpe.byte_fallback = true;
  bpe.fuse_unknown = true;
  TRY_ASSIGN(const std::optional<TokenId> unknown, read_id(file, builder, kUnknownKey));
  if (!unknown && otherwise && static_cast<size_t>(*otherwise) >= bpe.written.size()) otherwise.reset();
  bpe.unknown = unknown ? *unknown : otherwise.value_or(kNoToken);
  if (bpe.unknown != kNoToken || !builder.lacks_bytes()) return {};
  return error(file, ErrorCode::kBadByteToken,
               "tokenizer.ggml.tokens lacks tokens <0x00> to <0xFF>, and no unknown token can replace them");
}

// Loads SentencePiece's BPE, which has scores in place of merges. If the file has no scores, all tokens have the same
// score, as in llama.cpp.
Result<std::unique_ptr<Tokenizer>> load_scored_pieces(const ModelFile& file,
                                                      const std::vector<std::string_view>& tokens) {
  TRY_ASSIGN(const std::unique_ptr<PieceBuilder> builder, piece_builder(file, tokens, true));
  std::vector<double> scores(tokens.size());
  if (file.has(kScoresKey)) {
    TRY_ASSIGN(scores, read_scores(file, tokens.size()));
  } else {
    builder->warn(std::string(kScoresKey) + " is missing, neighbours merge from the left; texts are split into other " +
                  "tokens than in training");
  }
  TRY(builder->add_scores(scores));
  TRY(read_unknown(file, *builder, 0));
  TRY(read_special_ids(file, {.add_bos = true, .bos = 1, .eos = 2}, *builder));
  return builder->finish();
}

// Loads BPE whose merges join characters in place of bytes.
Result<std::unique_ptr<Tokenizer>> load_merged_pieces(const ModelFile& file,
                                                      const std::vector<std::string_view>& tokens) {
  TRY_ASSIGN(const std::unique_ptr<PieceBuilder> builder, piece_builder(file, tokens, false));
  builder->use_byte_tokens();
  TRY(add_merges(file, 1, *builder));
  builder->spec().cut = PieceCut::kLines;
  TRY_ASSIGN(const std::optional<std::string_view> pre, file.get_string("tokenizer.ggml.pre"));
  const bool as_gemma = pre != "sarvam-moe";
  builder->spec().whole_newline_runs = as_gemma;
  TRY(read_unknown(file, *builder, std::nullopt));
  TRY(read_special_ids(file, {.add_bos = as_gemma}, *builder));
  return builder->finish();
}

// Reads the table of replacements that is applied to a text first (SentencePiece's charsmap).
Result<std::optional<Charsmap>> read_charsmap(const ModelFile& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";
  TRY_ASSIGN(const std::optional<std::vector<int64_t>> numbers, file.get_ints(kKey));
  if (!numbers || numbers->empty()) return std::optional<Charsmap>();
  std::string bytes;
  for (const int64_t number : *numbers) bytes += static_cast<char>(number & 0xFF);
  std::optional<Charsmap> charsmap = Charsmap::parse(bytes);
  if (charsmap) return charsmap;
  return error(file, ErrorCode::kBadVocab,
               std::string(kKey) + " is damaged, expected a double array and its texts as bytes");
}

// Reads the keys that replace three steps of T5's tokenizer.json: Precompiled; Strip at the right end and Replace of
// runs of spaces; Metaspace.
Status read_unigram_pipeline(const ModelFile& file, PieceSpec& spec) {
  using Kind = NormalizerStep::Kind;
  const std::string mark(kSpaceMark);
  TRY_ASSIGN(const std::optional<bool> prefix, file.get_bool("tokenizer.ggml.add_space_prefix"));
  TRY_ASSIGN(const std::optional<bool> few_spaces, file.get_bool("tokenizer.ggml.remove_extra_whitespaces"));
  TRY_ASSIGN(std::optional<Charsmap> charsmap, read_charsmap(file));
  std::vector<NormalizerStep> steps;
  if (charsmap) steps.push_back({.kind = Kind::kCharsmap, .charsmap = *std::move(charsmap)});
  if (few_spaces.value_or(false)) {
    steps.push_back({.kind = Kind::kStrip, .right = true});
    steps.push_back({.kind = Kind::kCollapse, .to = mark});
  }
  spec.normalizer = Normalizer(std::move(steps));
  std::vector<NormalizerStep> marks = {{.kind = Kind::kReplace, .from = " ", .to = mark}};
  if (prefix.value_or(false)) {
    marks.push_back({.kind = Kind::kPrepend, .to = mark, .unless_there = true});
    spec.first_token = FirstToken::kWithoutSpaces;
  }
  spec.rewriter = Normalizer(std::move(marks));
  spec.cut = PieceCut::kSpaceMarks;
  return {};
}

// Loads SentencePiece's Unigram. As in tokenizer.json, added tokens are model tokens too. Tokens of type unused are
// padding. Only the scores of normal tokens are used.
Result<std::unique_ptr<Tokenizer>> load_unigram(const ModelFile& file, const std::vector<std::string_view>& tokens) {
  TRY_ASSIGN(std::vector<double> scores, read_scores(file, tokens.size()));
  TRY_ASSIGN(const std::optional<std::vector<int64_t>> listed, file.get_ints(kTypesKey));
  const bool has_bytes = listed && std::ranges::find(*listed, static_cast<int64_t>(kByte)) != listed->end();
  PieceBuilder builder(file.path(), tokens.size(), PieceBuilder::Display{{{std::string(kSpaceMark), " "}}, has_bytes});
  TRY_ASSIGN(const std::vector<int64_t> types, read_types(file, tokens, has_bytes, builder));
  const auto is = [&types](size_t i, GgufTokenType type) { return types[i] == static_cast<int64_t>(type); };
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (is(i, kUnused)) {
      TRY(builder.add_shown_token(id, tokens[i]));
      continue;
    }
    TRY(builder.add_model_token(id, tokens[i]));
    if (is(i, kNormal)) continue;
    scores[i] = 0;
    if (is(i, kByte)) continue;
    TRY(add_token(builder, id, tokens[i], types[i]));
  }
  TRY(read_unigram_pipeline(file, builder.spec()));
  TRY_ASSIGN(const std::optional<TokenId> unknown, read_id(file, builder, kUnknownKey));
  TRY(builder.use_unigram(std::move(scores), unknown.value_or(2), kUnknownKey, has_bytes));
  TRY(read_special_ids(file, {.add_eos = true, .eos = 1}, builder));
  return builder.finish();
}

// If tokenizer.ggml.model is "gpt2", tokens are written in the byte alphabet, except with the values of
// tokenizer.ggml.pre that this function lists.
Result<std::unique_ptr<Tokenizer>> load_merges(const ModelFile& file, const std::vector<std::string_view>& tokens) {
  TRY_ASSIGN(const std::optional<std::string_view> pre, file.get_string("tokenizer.ggml.pre"));
  for (const std::string_view name : {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}) {
    if (pre == name) return load_merged_pieces(file, tokens);
  }
  return load_byte_level(file, tokens);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_gguf_tokenizer(const ModelFile& file) {
  TRY_ASSIGN(const std::optional<std::string_view> model, file.get_string("tokenizer.ggml.model"));
  if (!model) return missing(file, "tokenizer.ggml.model");
  using Load = Result<std::unique_ptr<Tokenizer>> (*)(const ModelFile&, const std::vector<std::string_view>&);
  constexpr std::pair<std::string_view, Load> kModels[] = {
      {"gpt2", load_merges}, {"llama", load_scored_pieces}, {"gemma4", load_merged_pieces}, {"t5", load_unigram}};
  const auto found =
      std::find_if(std::begin(kModels), std::end(kModels), [&](const auto& known) { return known.first == *model; });
  if (found == std::end(kModels)) {
    return error(
        file, ErrorCode::kUnsupported,
        "the tokenizer model " + in_quotes(*model) + " is not supported, only 'gpt2', 'llama', 'gemma4' and 't5' are");
  }
  TRY_ASSIGN(std::optional<std::vector<std::string_view>> tokens, file.get_strings("tokenizer.ggml.tokens"));
  if (!tokens) return missing(file, "tokenizer.ggml.tokens");
  if (tokens->empty() || tokens->size() > VocabularyLimits::kMaxTokens) {
    return error(file, ErrorCode::kBadVocab,
                 "tokenizer.ggml.tokens has " + std::to_string(tokens->size()) + " entries, expected 1 to " +
                     std::to_string(VocabularyLimits::kMaxTokens));
  }
  TRY(check_embedding(file, tokens->size()));
  TRY_ASSIGN(const std::vector<std::string_view> vocabulary, without_padding(file, *std::move(tokens)));
  return found->second(file, vocabulary);
}

}  // namespace ibid
