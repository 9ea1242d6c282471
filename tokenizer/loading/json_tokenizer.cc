#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json_members.h"
#include "base/text.h"
#include "tokenizer/loading/json_tokenizer.h"
#include "tokenizer/loading/special_tokens.h"
#include "tokenizer/loading/tokenizer_builder.h"
#include "tokenizer/loading/tokenizer_loaders.h"

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
  const Json* dropout = member(model, "dropout");
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
  const Json* vocab = member(model, "vocab");
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

// Returns the number of rows of the embedding, if the file has it.
std::optional<int64_t> embedding_rows(const ModelFile& file) {
  const TensorView* embedding = file.find_tensor("token_embd.weight");
  if (embedding != nullptr && embedding->shape.rank >= 2) {
    return static_cast<int64_t>(embedding->shape[embedding->shape.rank - 2]);
  }
  for (const char* key : {"vocab_size", "text_config.vocab_size"}) {
    if (const auto rows = file.get_int(key); rows.ok() && *rows) return **rows;
  }
  return std::nullopt;
}

// Assigns ids to added tokens: the id of the model token with the same text, else the next free id. Ignores "id", as
// AddedVocabulary::add_tokens() of `tokenizers` does.
class AddedReader {
 public:
  AddedReader(const JsonSource& source, JsonTokenizer& json, std::optional<int64_t> n_rows)
      : source_(source), json_(json), n_rows_(n_rows), next_(static_cast<TokenId>(json.vocabulary.size())) {}

  Status read(const Json& root, const SpecialTokens& special) {
    const Json* list = member(root, "added_tokens");
    if (list != nullptr && !list->is_array()) {
      return source_.error(ErrorCode::kBadVocab, "added_tokens is not an array");
    }
    static const Json kNone = Json::array();
    for (const Json& entry : list == nullptr ? kNone : *list) {
      const Json* content = member(entry, "content");
      if (content == nullptr || !content->is_string()) {
        return source_.error(ErrorCode::kBadVocab, "an added token has no content");
      }
      ids_.emplace(content->get_ref<const std::string&>(), kNoToken);
    }
    for (const AddedToken& token : special.added) ids_.emplace(token.text, kNoToken);
    for (const VocabularyEntry& entry : json_.vocabulary) {
      if (const auto added = ids_.find(entry.text); added != ids_.end()) added->second = entry.id;
    }
    for (const Json& entry : list == nullptr ? kNone : *list) add_listed(entry);
    for (const AddedToken& token : special.added) add_named(token);
    if (n_beyond_ > 0) {
      json_.warnings.push_back(source_.name + ": added tokens without a row of the embedding: " +
                               std::to_string(n_beyond_) + ", the first is " + in_quotes(first_beyond_));
    }
    return {};
  }

 private:
  void add_listed(const Json& entry) {
    AddedToken token;
    token.text = entry["content"].get<std::string>();
    token.special = json_flag(entry, "special", false);
    token.lstrip = json_flag(entry, "lstrip", false);
    token.rstrip = json_flag(entry, "rstrip", false);
    token.single_word = json_flag(entry, "single_word", false);
    token.normalized = json_flag(entry, "normalized", !token.special);
    add(std::move(token));
  }

  // Adds a token of SpecialTokens::added. Leaves it out if no model token has its text and its id in the files is not
  // the next free id.
  void add_named(const AddedToken& token) {
    const bool is_new = ids_.at(token.text) == kNoToken;
    if (!is_new || token.id == next_) add(token);
  }

  void add(AddedToken token) {
    if (token.text.empty() || !done_.insert(token.text).second) return;
    const TokenId known = ids_.at(token.text);
    token.id = known == kNoToken ? next_ : known;
    next_ = std::max(next_, token.id + 1);
    if (known == kNoToken && n_rows_ && token.id >= *n_rows_) {
      if (n_beyond_++ == 0) first_beyond_ = token.text;
      return;
    }
    json_.added.push_back(std::move(token));
  }

  const JsonSource& source_;
  JsonTokenizer& json_;
  std::optional<int64_t> n_rows_;
  TokenId next_;
  std::unordered_map<std::string_view, TokenId> ids_;  // text of an added token -> id of the model token with this text
  std::unordered_set<std::string> done_;
  size_t n_beyond_ = 0;
  std::string first_beyond_;
};

Result<std::vector<TextMerge>> read_merges(const JsonSource& source, const Json& model) {
  const Json* merges = member(model, "merges");
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
Status read_special_ids(const ModelFile& file, const SpecialTokens& special, TokenizerBuilder& builder) {
  PipelineSpec& spec = builder.pipeline();
  for (const auto& [key, id] : {std::pair("bos_token", &spec.bos), std::pair("eos_token", &spec.eos)}) {
    if (file.container() == Container::kGguf) {
      const std::string name = std::string("tokenizer.ggml.") + key + "_id";
      TRY_ASSIGN(const std::optional<int64_t> number, file.get_int(name));
      if (number) *id = builder.usable_id(*number, name);
    } else if (const std::optional<std::string> text = json_text(special.names, key)) {
      *id = builder.find_text(*text);
    }
  }
  TRY_ASSIGN(const std::vector<int64_t> ends, read_end_ids(file));
  for (const int64_t end : ends) {
    if (const std::optional<TokenId> id = builder.usable_id(end, "eos_token_id")) spec.end_of_turn.push_back(*id);
  }
  return {};
}

// Adds the tokens of the file to the builder: ByteLevelBuilder or PieceBuilder.
template <typename Builder>
Status add_tokens(JsonTokenizer& json, Builder& builder) {
  for (const VocabularyEntry& entry : json.vocabulary) TRY(builder.add_model_token(entry.id, entry.text));
  for (AddedToken& token : json.added) {
    // Make an added token that ends turns a control token, whatever the file says: no message may contain it.
    if (!token.special && is_turn_end(token.text)) {
      token.special = true;
      builder.note(TokenDefect::kWrongType, token.id, token.text);
    }
    TRY(builder.add_added_token(std::move(token)));
  }
  PipelineSpec& spec = builder.pipeline();
  spec.warnings = std::move(json.warnings);
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
  // If the vocabulary has all bytes, no character is unknown, and the settings for unknown characters have no effect.
  if (builder->lacks_bytes() && (json_text(json.model, "unk_token") || json_flag(json.model, "byte_fallback", false))) {
    return source.unsupported("model.unk_token or model.byte_fallback of a vocabulary without all bytes");
  }
  return std::unique_ptr<TokenizerBuilder>(std::move(builder));
}

Status add_unigram(const JsonSource& source, const JsonTokenizer& json, PieceBuilder& builder) {
  const Json* unknown = member(json.model, "unk_id");
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

Result<JsonTokenizer> read_json_tokenizer(const ModelFile& file, const SpecialTokens& special,
                                          const JsonDocument& document) {
  const JsonSource source = json_source(file);
  const Json& root = document.root();
  const Json* model = member(root, "model");
  if (model == nullptr) return source.error(ErrorCode::kMissingKey, "the key \"model\" is missing");
  TRY(check_model(source, *model));
  JsonTokenizer read{*model, {}, {}, {}, {}, {}, {}, {}};
  read.warnings = special.warnings;
  if (document.vocabulary() && document.has_scores() == read.is_unigram()) {
    read.vocabulary = *document.vocabulary();
  } else {
    TRY_ASSIGN(read.own_vocabulary, read_vocabulary(source, *model));
    read.vocabulary = read.own_vocabulary;
  }
  TRY(AddedReader(source, read, embedding_rows(file)).read(root, special));
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
  TRY_ASSIGN(const SpecialTokens special, read_special_tokens(file));
  TRY_ASSIGN(JsonTokenizer read, read_json_tokenizer(file, special, document));
  TRY_ASSIGN(const std::unique_ptr<TokenizerBuilder> builder,
             read.pipeline.byte_level ? build_byte_level(source, read) : build_pieces(source, read));
  TRY(read_special_ids(file, special, *builder));
  return builder->finish();
}

}  // namespace ibid
