#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "tokenizer/loading/json_tokenizer.h"
#include "tokenizer/loading/tokenizer_builder.h"
#include "tokenizer/loading/tokenizer_loaders.h"
#include "weights/model_json.h"

namespace ibid {
namespace {

// Checks the fields of `model` that change how merges apply.
Status check_model(const JsonSource& source, const Json& model) {
  const std::string type = json_text(model, "type").value_or("BPE");  // older files lack "type"
  if (type == "Unigram") return {};
  if (type != "BPE") return source.unsupported("the model " + in_quotes(type));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!json_text(model, key).value_or("").empty()) return source.unsupported(std::string("model.") + key);
  }
  const Json* dropout = json_member(model, "dropout");
  if (dropout != nullptr && *dropout != 0.0) return source.unsupported("model.dropout");
  return {};
}

// Reads Unigram's vocabulary: a list of texts and scores, ordered by id.
Result<std::vector<VocabularyEntry>> read_scored_vocabulary(const JsonSource& source, const Json& vocab) {
  std::vector<VocabularyEntry> out;
  if (vocab.size() > VocabularyLimits::kMaxTokens) {
    return source.error(ErrorCode::kBadVocab, "model.vocab has " + std::to_string(vocab.size()) +
                                                  " entries, expected at most " +
                                                  std::to_string(VocabularyLimits::kMaxTokens));
  }
  for (const Json& entry : vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      return source.error(ErrorCode::kBadVocab,
                          "model.vocab[" + std::to_string(out.size()) + "] is not a pair of a text and a score");
    }
    const auto id = static_cast<TokenId>(out.size());
    out.push_back({entry[0].get_ref<const std::string&>(), id, entry[1].get<double>()});
  }
  return out;
}

Result<std::vector<VocabularyEntry>> read_vocabulary(const JsonSource& source, const Json& model) {
  const Json* vocab = json_member(model, "vocab");
  if (json_text(model, "type") == "Unigram") {
    if (vocab != nullptr && vocab->is_array()) return read_scored_vocabulary(source, *vocab);
    return source.error(ErrorCode::kBadVocab, "model.vocab is not an array");
  }
  if (vocab == nullptr || !vocab->is_object())
    return source.error(ErrorCode::kBadVocab, "model.vocab is not an object");
  std::vector<VocabularyEntry> out;
  out.reserve(vocab->size());
  for (const auto& [text, id] : vocab->items()) {
    if (!id.is_number_integer() || id < 0 || id >= VocabularyLimits::kMaxTokens) {
      return source.error(ErrorCode::kBadVocab, "the token " + in_quotes(text) + " has the id " + in_quotes(id.dump()) +
                                                    ", expected 0 to " +
                                                    std::to_string(VocabularyLimits::kMaxTokens - 1));
    }
    out.push_back({text, id.get<TokenId>(), 0});
  }
  return out;
}

// Returns the added tokens with the ids assigned to them: the id of the model's token of the same text, else the next
// free id. The file's "id" is ignored (AddedVocabulary::add_tokens of the reference).
Result<std::vector<AddedToken>> read_added(const JsonSource& source, const Json& root,
                                           std::span<const VocabularyEntry> vocabulary) {
  std::vector<AddedToken> out;
  const Json* list = json_member(root, "added_tokens");
  if (list == nullptr) return out;
  if (!list->is_array()) return source.error(ErrorCode::kBadVocab, "added_tokens is not an array");
  std::unordered_map<std::string_view, TokenId> wanted;  // text of an added token -> id of the model's token
  for (const Json& entry : *list) {
    const Json* content = json_member(entry, "content");
    if (content == nullptr || !content->is_string()) {
      return source.error(ErrorCode::kBadVocab, "an added token has no content");
    }
    if (!wanted.emplace(content->get_ref<const std::string&>(), kNoToken).second) {
      return source.error(ErrorCode::kBadVocab,
                          "the added token " + in_quotes(content->get_ref<const std::string&>()) + " appears twice");
    }
  }
  for (const VocabularyEntry& entry : vocabulary) {
    if (const auto added = wanted.find(entry.text); added != wanted.end()) added->second = entry.id;
  }
  const auto n_model = static_cast<TokenId>(vocabulary.size());
  TokenId next = n_model;
  for (const Json& entry : *list) {
    AddedToken token;
    token.text = entry["content"].get<std::string>();
    token.id = wanted[token.text] == kNoToken ? next : wanted[token.text];
    next = std::max(next, token.id + 1);
    token.special = json_flag(entry, "special", false);
    token.lstrip = json_flag(entry, "lstrip", false);
    token.rstrip = json_flag(entry, "rstrip", false);
    token.single_word = json_flag(entry, "single_word", false);
    token.normalized = json_flag(entry, "normalized", !token.special);
    out.push_back(std::move(token));
  }
  return out;
}

Result<std::vector<TextMerge>> read_merges(const JsonSource& source, const Json& model) {
  const Json* merges = json_member(model, "merges");
  if (merges == nullptr || !merges->is_array())
    return source.error(ErrorCode::kBadMerge, "model.merges is not an array");
  std::vector<TextMerge> out;
  out.reserve(merges->size());
  for (const Json& merge : *merges) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      out.push_back({merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()});
      continue;
    }
    const std::string_view text = merge.is_string() ? std::string_view(merge.get_ref<const std::string&>()) : "";
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return source.error(
          ErrorCode::kBadMerge,
          "the merge " + in_quotes(merge.dump(-1, ' ', false, Json::error_handler_t::replace)) + " is not a pair");
    }
    out.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  return out;
}

// Reads BOS, EOS and other end-of-turn tokens from the files beside tokenizer.json, or from GGUF's keys.
Status read_special_ids(const ModelFile& file, TokenizerBuilder& builder) {
  PipelineSpec& spec = builder.pipeline();
  for (const auto& [key, id] : {std::pair("bos_token", &spec.bos), std::pair("eos_token", &spec.eos)}) {
    if (file.container() == Container::kGguf) {
      const std::string name = std::string("tokenizer.ggml.") + key + "_id";
      TRY_ASSIGN(const std::optional<int64_t> number, file.get_int(name));
      if (!number) continue;
      TRY_ASSIGN(*id, builder.checked_id(*number, name));
    }
  }
  if (file.container() == Container::kGguf) return {};
  TRY_ASSIGN(const std::optional<std::string> config_text, file.companion("tokenizer_config.json"));
  if (config_text) {
    TRY_ASSIGN(const Json config, parse_model_json(*config_text, "tokenizer_config.json"));
    for (const auto& [key, id] : {std::pair("bos_token", &spec.bos), std::pair("eos_token", &spec.eos)}) {
      const Json* token = json_member(config, key);
      if (token == nullptr) continue;
      const std::optional<std::string> text =
          token->is_string() ? token->get<std::string>() : json_text(*token, "content");
      if (text) *id = builder.find_text(*text);
    }
  }
  TRY_ASSIGN(const std::optional<std::string> generation_text, file.companion("generation_config.json"));
  if (!generation_text) return {};
  TRY_ASSIGN(const Json generation, parse_model_json(*generation_text, "generation_config.json"));
  const Json* ends = json_member(generation, "eos_token_id");
  if (ends == nullptr) return {};
  for (const Json& end : ends->is_array() ? *ends : Json::array({*ends})) {
    if (!end.is_number_integer()) continue;
    TRY_ASSIGN(const TokenId id, builder.checked_id(end.get<int64_t>(), "eos_token_id"));
    spec.end_of_turn.push_back(id);
  }
  return {};
}

// Collects the content of the file. Builder: ByteLevelBuilder or PieceBuilder.
template <typename Builder>
Status add_tokens(JsonTokenizer& json, Builder& builder) {
  for (const VocabularyEntry& entry : json.vocabulary) TRY(builder.add_model_token(entry.id, entry.text));
  for (AddedToken& token : json.added) TRY(builder.add_added_token(std::move(token)));
  PipelineSpec& spec = builder.pipeline();
  for (const auto& [ids, around] :
       {std::pair(&json.pipeline.prefix, &spec.prefix), std::pair(&json.pipeline.suffix, &spec.suffix)}) {
    for (const int64_t id : *ids) {
      TRY_ASSIGN(const TokenId checked, builder.checked_id(id, "post_processor"));
      around->push_back(checked);
    }
  }
  spec.normalizer = Normalizer(std::move(json.pipeline.normalizer));
  return {};
}

Result<StagedSplit> read_split(const JsonSource& source, const std::vector<SplitStep>& steps) {
  Result<StagedSplit> split = StagedSplit::create(steps);
  if (split.ok()) return split;
  return source.unsupported("pre_tokenizer: " + split.status().message());
}

Result<std::unique_ptr<TokenizerBuilder>> build_byte_level(const JsonSource& source, JsonTokenizer& json) {
  auto builder = std::make_unique<ByteLevelBuilder>(source.name, json.vocab_size());
  TRY(add_tokens(json, *builder));
  ByteLevelSpec& spec = builder->spec();
  const PretokenizerFamily* family = find_pretokenizer_by_steps(json.pipeline.split);
  if (family != nullptr) spec.scan = family->scan;
  if (spec.scan == nullptr) {
    TRY_ASSIGN(spec.split, read_split(source, json.pipeline.split));
  }
  spec.rewriter = Normalizer(std::move(json.pipeline.rewriter));
  spec.bpe.ignore_merges = json_flag(json.model, "ignore_merges", false);
  TRY(builder->add_merges(json.merges));
  // If the vocabulary has all bytes, no character is unknown, so the settings for unknown characters do not matter.
  if (builder->lacks_bytes() && (json_text(json.model, "unk_token") || json_flag(json.model, "byte_fallback", false))) {
    return source.unsupported("model.unk_token or model.byte_fallback of a vocabulary without all bytes");
  }
  return std::unique_ptr<TokenizerBuilder>(std::move(builder));
}

Status add_unigram(const JsonSource& source, const JsonTokenizer& json, PieceBuilder& builder) {
  const Json* unknown = json_member(json.model, "unk_id");
  if (unknown == nullptr) {
    return source.error(ErrorCode::kMissingKey, "model.unk_id is missing (id of the unknown token)");
  }
  std::vector<double> scores;
  for (const VocabularyEntry& entry : json.vocabulary) scores.push_back(entry.score);
  return builder.use_unigram(std::move(scores), unknown->is_number_integer() ? unknown->get<int64_t>() : -1,
                             "model.unk_id", json_flag(json.model, "byte_fallback", false));
}

Result<std::unique_ptr<TokenizerBuilder>> build_pieces(const JsonSource& source, JsonTokenizer& json) {
  auto builder = std::make_unique<PieceBuilder>(
      source.name, json.vocab_size(),
      PieceBuilder::Display{std::move(json.pipeline.shown_replacements), json.pipeline.shown_bytes});
  TRY(add_tokens(json, *builder));
  PieceSpec& spec = builder->spec();
  spec.rewriter = Normalizer(std::move(json.pipeline.rewriter));
  spec.cut = json.pipeline.cut;
  if (!json.pipeline.split.empty()) {
    TRY_ASSIGN(spec.split, read_split(source, json.pipeline.split));
    spec.cut = PieceCut::kSteps;
  }
  spec.first_token = json.pipeline.first_token;
  if (json_text(json.model, "type") == "Unigram") {
    TRY(add_unigram(source, json, *builder));
    return std::unique_ptr<TokenizerBuilder>(std::move(builder));
  }
  CharBpeModel& bpe = builder->bpe();
  bpe.byte_fallback = json_flag(json.model, "byte_fallback", false);
  if (bpe.byte_fallback) builder->use_byte_tokens();
  bpe.fuse_unknown = json_flag(json.model, "fuse_unk", false);
  bpe.ignore_merges = json_flag(json.model, "ignore_merges", false);
  if (bpe.ignore_merges && spec.cut == PieceCut::kNowhere) {
    return source.unsupported("model.ignore_merges without a pre-tokenizer");
  }
  if (const std::optional<std::string> unknown = json_text(json.model, "unk_token")) {
    bpe.unknown = bpe.written.find(*unknown);
    if (bpe.unknown == kNoToken) {
      return source.error(ErrorCode::kBadVocab,
                          "model.unk_token is " + in_quotes(*unknown) + ", expected a token of model.vocab");
    }
  }
  TRY(builder->add_merges(json.merges));
  return std::unique_ptr<TokenizerBuilder>(std::move(builder));
}

}  // namespace

JsonSource json_source(const ModelFile& file) { return {file.path() + ": tokenizer.json"}; }

size_t JsonTokenizer::vocab_size() const {
  TokenId largest = -1;
  for (const VocabularyEntry& entry : vocabulary) largest = std::max(largest, entry.id);
  for (const AddedToken& token : added) largest = std::max(largest, token.id);
  return static_cast<size_t>(int64_t{largest} + 1);
}

Result<JsonTokenizer> read_json_tokenizer(const JsonSource& source, const JsonDocument& document) {
  const Json& root = document.root();
  const Json* model = json_member(root, "model");
  if (model == nullptr) return source.error(ErrorCode::kMissingKey, "model is missing");
  TRY(check_model(source, *model));
  JsonTokenizer read{*model, {}, {}, {}, {}, {}, {}};
  if (document.vocabulary() && document.has_scores() == read.is_unigram()) {
    read.vocabulary = *document.vocabulary();
  } else {
    TRY_ASSIGN(read.own_vocabulary, read_vocabulary(source, *model));
    read.vocabulary = read.own_vocabulary;
  }
  TRY_ASSIGN(read.added, read_added(source, root, read.vocabulary));
  if (read.vocab_size() == 0) return source.error(ErrorCode::kBadVocab, "the vocabulary is empty");
  TRY_ASSIGN(read.pipeline, read_pipeline(source, root));
  if (read.is_unigram() && read.pipeline.byte_level) return source.unsupported("Unigram after ByteLevel");
  if (read.is_unigram()) return read;
  if (document.merges()) {
    read.merges = *document.merges();
  } else {
    TRY_ASSIGN(read.own_merges, read_merges(source, *model));
    read.merges = read.own_merges;
  }
  return read;
}

Result<std::unique_ptr<Tokenizer>> load_json_tokenizer(const ModelFile& file, std::string_view json,
                                                       std::optional<TokenizerKind>& kind) {
  const JsonSource source = json_source(file);
  TRY_ASSIGN(const JsonDocument document, JsonDocument::parse(json, source.name));
  if (document.root().is_object()) kind = json_tokenizer_kind(document.root());
  TRY_ASSIGN(JsonTokenizer read, read_json_tokenizer(source, document));
  TRY_ASSIGN(const std::unique_ptr<TokenizerBuilder> builder,
             read.pipeline.byte_level ? build_byte_level(source, read) : build_pieces(source, read));
  TRY(read_special_ids(file, *builder));
  return builder->finish();
}

}  // namespace ibid
