#include "model/architectures/architectures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/text.h"
#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"
#include "model/architectures/keys.h"
#include "model/architectures/rules.h"
#include "model/tensors/tensor_names.h"
#include "model/tensors/tensor_source.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

using enum NormPlaces;
using Kind = Activation::Kind;

// For a GGUF the first row with its gguf_name is used; later rows with that name describe checkpoints that are
// converted to that architecture.
const std::array kArchitectures = {
    Architecture{.gguf_name = "llama",
                 .hf_model_type = "llama",
                 .adjacent_pairs = In::kGguf,
                 .windows = Windows::kAllOfGguf,
                 .router_normalizes = In::kBoth},
    Architecture{.gguf_name = "llama", .hf_model_type = "mistral", .windows = Windows::kAll},
    Architecture{
        .gguf_name = "mistral3", .hf_model_type = "ministral3", .adjacent_pairs = In::kGguf, .windows = Windows::kAll},
    Architecture{.gguf_name = "qwen2", .hf_model_type = "qwen2", .windows = Windows::kUpperLayers},
    // M-RoPE of vision models uses three positions per token, which are equal for tokens of text.
    Architecture{.gguf_name = "qwen2vl", .hf_model_type = "qwen2_vl", .windows = Windows::kUpperLayers},
    Architecture{.hf_model_type = "qwen2_vl_text", .windows = Windows::kUpperLayers},
    Architecture{.hf_model_type = "qwen2_5_vl", .windows = Windows::kUpperLayers},
    Architecture{.hf_model_type = "qwen2_5_vl_text", .windows = Windows::kUpperLayers},
    Architecture{.gguf_name = "qwen3vl", .hf_model_type = "qwen3_vl_text", .qk_norm = QkNorm::kPerHead},
    Architecture{.gguf_name = "qwen3vlmoe",
                 .hf_model_type = "qwen3_vl_moe_text",
                 .qk_norm = QkNorm::kPerHead,
                 .router_normalizes = In::kBoth,
                 .experts_transposed = In::kHf},
    Architecture{
        .gguf_name = "qwen3", .hf_model_type = "qwen3", .qk_norm = QkNorm::kPerHead, .windows = Windows::kUpperLayers},
    Architecture{.gguf_name = "gemma",
                 .hf_model_type = "gemma",
                 .norms_minus_one = In::kHf,
                 .activation = Kind::kGeluTanh,
                 .embed_scale_is_sqrt_dim = true},
    Architecture{.gguf_name = "gemma2",
                 .hf_model_type = "gemma2",
                 .tensor_names = names::kGemma,
                 .norms_minus_one = In::kHf,
                 .norm_places = kBoth,
                 .windows = Windows::kPeriod,
                 .window_period = 2,
                 .gguf_wide_scale_layers = 46,
                 .activation = Kind::kGeluTanh,
                 .embed_scale_is_sqrt_dim = true,
                 .attention_softcap = 50,
                 .logit_softcap = 30},
    Architecture{.gguf_name = "gemma3",
                 .hf_model_type = "gemma3_text",
                 .tensor_names = names::kGemma,
                 .norms_minus_one = In::kHf,
                 .norm_places = kBoth,
                 .qk_norm = QkNorm::kPerHead,
                 .windows = Windows::kPeriod,
                 .window_period = 6,
                 .rope_layers = RopeLayers::kTwoRules,
                 .windowed_theta = 10000,
                 .gguf_wide_scale_layers = 62,
                 .activation = Kind::kGeluTanh,
                 .embed_scale_is_sqrt_dim = true},
    Architecture{.gguf_name = "gemma3n",
                 .hf_model_type = "gemma3n_text",
                 .tensor_names = names::kGemma,
                 .norm_places = kBoth,
                 .qk_norm = QkNorm::kPerHead,
                 .value_norm = true,
                 .windows = Windows::kPeriod,
                 .window_period = 5,
                 .rope_layers = RopeLayers::kTwoRules,
                 .windowed_theta = 10000,
                 .attention_scale = 1,
                 .gguf_default_cutoff_layers = 10,
                 .activation = Kind::kGeluTanh,
                 .embed_scale_is_sqrt_dim = true,
                 .logit_softcap = 30},
    Architecture{.gguf_name = "gemma4",
                 .hf_model_type = "gemma4_text",
                 .tensor_names = names::kGemma,
                 .norm_places = kBoth,
                 .qk_norm = QkNorm::kPerHead,
                 .value_may_be_key = true,
                 .value_norm = true,
                 .scaled_layers = true,
                 .windows = Windows::kPeriod,
                 .window_period = 6,
                 .gguf_by_layer = true,
                 .rope_layers = RopeLayers::kTwoRules,
                 .windowed_theta = 10000,
                 .attention_scale = 1,
                 .activation = Kind::kGeluTanh,
                 .router_normalizes = In::kBoth,
                 .moe_beside_mlp = true,
                 .embed_scale_is_sqrt_dim = true},
    Architecture{.gguf_name = "phi3", .hf_model_type = "phi3", .windows = Windows::kAll},
    Architecture{.gguf_name = "smollm3",
                 .hf_model_type = "smollm3",
                 .adjacent_pairs = In::kGguf,
                 .windows = Windows::kWithoutRope,
                 .rope_layers = RopeLayers::kListed},
    Architecture{.gguf_name = "granite",
                 .hf_model_type = "granite",
                 .adjacent_pairs = In::kGguf,
                 .gguf_splits_gate_up = true,
                 .logits_are_divided = true},
    // OLMo 2 and 3 have the same name in GGUF; only OLMo 3 has windows.
    Architecture{.gguf_name = "olmo2",
                 .hf_model_type = "olmo3",
                 .norm_places = kAfter,
                 .qk_norm = QkNorm::kWhole,
                 .windows = Windows::kPeriod,
                 .window_period = 4,
                 .rope_layers = RopeLayers::kTwoRules},
    Architecture{.gguf_name = "olmo2", .hf_model_type = "olmo2", .norm_places = kAfter, .qk_norm = QkNorm::kWhole},
    Architecture{.gguf_name = "glm4",
                 .hf_model_type = "glm4",
                 .tensor_names = names::kGlm4,
                 .adjacent_pairs = In::kBoth,
                 .norm_places = kBoth,
                 .rotary_share = 0.5},
    Architecture{.gguf_name = "command-r",
                 .hf_model_type = "cohere",
                 .adjacent_pairs = In::kBoth,
                 .norm = NormKind::kLayer,
                 .qk_norm = QkNorm::kEachHead,
                 .qk_norm_may_be_absent = true,
                 .parallel = true},
    Architecture{.gguf_name = "cohere2",
                 .hf_model_type = "cohere2",
                 .adjacent_pairs = In::kBoth,
                 .norm = NormKind::kLayer,
                 .windows = Windows::kPeriod,
                 .window_period = 4,
                 .rope_layers = RopeLayers::kWindowed,
                 .parallel = true},
    Architecture{.gguf_name = "exaone4",
                 .hf_model_type = "exaone4",
                 .norm_places = kAfter,
                 .qk_norm = QkNorm::kPerHead,
                 .windows = Windows::kPeriod,
                 .window_period = 4,
                 .rope_layers = RopeLayers::kWindowed},
    Architecture{.gguf_name = "ernie4_5", .hf_model_type = "ernie4_5", .adjacent_pairs = In::kBoth},
    Architecture{.gguf_name = "hunyuan-dense",
                 .hf_model_type = "hunyuan_v1_dense",
                 .tensor_names = names::kHunyuan,
                 .qk_norm = QkNorm::kPerHead,
                 .qk_norm_after_rope = true},
    Architecture{.gguf_name = "seed_oss", .hf_model_type = "seed_oss", .tensor_names = names::kNormBeforeMlp},
    Architecture{.gguf_name = "stablelm",
                 .hf_model_type = "stablelm",
                 .tensor_names = names::kStablelm,
                 .norm = NormKind::kLayer,
                 .qk_norm = QkNorm::kEachHead,
                 .qk_norm_may_be_absent = true,
                 .rotary_share = 0.25},
    Architecture{.gguf_name = "starcoder2",
                 .hf_model_type = "starcoder2",
                 .tensor_names = names::kStarcoder2,
                 .norm = NormKind::kLayer,
                 .windows = Windows::kAll,
                 .activation = Kind::kGeluTanh,
                 .gated = false},
    Architecture{.gguf_name = "gpt2",
                 .hf_model_type = "gpt2",
                 .tensor_names = names::kGpt2,
                 .hf_prefix = "transformer.",
                 .transposed = In::kHf,
                 .norm = NormKind::kLayer,
                 .rope_layers = RopeLayers::kNone,
                 .activation = Kind::kGeluTanh,
                 .gated = false},
    Architecture{.gguf_name = "gptneox",
                 .hf_model_type = "gpt_neox",
                 .tensor_names = names::kGptNeox,
                 .hf_prefix = "gpt_neox.",
                 .qkv_by_group = In::kHf,
                 .norm = NormKind::kLayer,
                 .rotary_share = 0.25,
                 .activation = Kind::kGelu,
                 .gated = false,
                 .parallel = true},
    Architecture{.gguf_name = "falcon",
                 .hf_model_type = "falcon",
                 .tensor_names = names::kFalcon,
                 .hf_prefix = "transformer.",
                 .qkv_by_group = In::kHf,
                 .norm = NormKind::kLayer,
                 .activation = Kind::kGelu,
                 .gated = false,
                 .parallel = true},
    Architecture{.gguf_name = "nemotron",
                 .hf_model_type = "nemotron",
                 .norms_minus_one = In::kHf,
                 .norm = NormKind::kLayer,
                 .rotary_share = 0.5,
                 .activation = Kind::kReluSquared,
                 .gated = false},
    Architecture{.gguf_name = "apertus",
                 .hf_model_type = "apertus",
                 .tensor_names = names::kApertus,
                 .qk_norm = QkNorm::kPerHead,
                 .activation = Kind::kXielu,
                 .gated = false},
    Architecture{.gguf_name = "arcee",
                 .hf_model_type = "arcee",
                 .adjacent_pairs = In::kGguf,
                 .activation = Kind::kReluSquared,
                 .gated = false},
    Architecture{
        .gguf_name = "llama", .hf_model_type = "mixtral", .windows = Windows::kAll, .router_normalizes = In::kBoth},
    Architecture{.gguf_name = "qwen2moe", .hf_model_type = "qwen2_moe", .windows = Windows::kUpperLayers},
    Architecture{.gguf_name = "qwen3moe",
                 .hf_model_type = "qwen3_moe",
                 .qk_norm = QkNorm::kPerHead,
                 .windows = Windows::kUpperLayers,
                 .router_normalizes = In::kGguf},
    Architecture{.gguf_name = "olmoe", .hf_model_type = "olmoe", .qk_norm = QkNorm::kWhole},
    Architecture{.gguf_name = "granitemoe",
                 .hf_model_type = "granitemoe",
                 .adjacent_pairs = In::kGguf,
                 .gguf_splits_gate_up = true,
                 .router_scores = RouterScores::kSoftmaxOfChosen,
                 .logits_are_divided = true},
    Architecture{.gguf_name = "ernie4_5-moe",
                 .hf_model_type = "ernie4_5_moe",
                 .adjacent_pairs = In::kBoth,
                 .router_normalizes = In::kBoth},
    Architecture{.gguf_name = "dots1",
                 .hf_model_type = "dots1",
                 .qk_norm = QkNorm::kPerHead,
                 .windows = Windows::kAll,
                 .router_scores = RouterScores::kSigmoid,
                 .router_normalizes = In::kBoth},
    Architecture{.gguf_name = "glm4moe",
                 .hf_model_type = "glm4_moe",
                 .tensor_names = names::kNormBeforeMlp,
                 .qk_norm = QkNorm::kPerHead,
                 .qk_norm_may_be_absent = true,
                 .rotary_share = 0.5,
                 .router_scores = RouterScores::kSigmoid,
                 .router_normalizes = In::kBoth},
    Architecture{.gguf_name = "deepseek2",
                 .hf_model_type = "deepseek_v3",
                 .latent = true,
                 .router_scores = RouterScores::kSigmoid,
                 .router_normalizes = In::kBoth},
    Architecture{.gguf_name = "deepseek2",
                 .hf_model_type = "glm4_moe_lite",
                 .latent = true,
                 .router_scores = RouterScores::kSigmoid,
                 .router_normalizes = In::kBoth},
    Architecture{.gguf_name = "gpt-oss",
                 .hf_model_type = "gpt_oss",
                 .tensor_names = names::kNormBeforeMlp,
                 .windows = Windows::kPeriod,
                 .window_period = 2,
                 .yarn_truncates = false,
                 .router_scores = RouterScores::kSoftmaxOfChosen,
                 .clamped_swiglu = true,
                 .experts_interleaved = In::kHf,
                 .experts_transposed = In::kHf},
    Architecture{.gguf_name = "afmoe",
                 .hf_model_type = "afmoe",
                 .tensor_names = names::kAfmoe,
                 .norm_places = kBoth,
                 .qk_norm = QkNorm::kPerHead,
                 .attention_gate = true,
                 .windows = Windows::kPeriod,
                 .window_period = 4,
                 .rope_layers = RopeLayers::kWindowed,
                 .router_scores = RouterScores::kSigmoid,
                 .router_normalizes = In::kBoth,
                 .embed_scale_is_sqrt_dim = true},
    Architecture{.gguf_name = "llama4",
                 .hf_model_type = "llama4_text",
                 .tensor_names = names::kLlama4,
                 .adjacent_pairs = In::kBoth,
                 .qk_norm = QkNorm::kUnweighted,
                 .qk_norm_after_rope = true,
                 .windows = Windows::kChunks,
                 .rope_layers = RopeLayers::kListed,
                 .grows_without_rope = true,
                 .router_scores = RouterScores::kSigmoidOfChosen,
                 .shared_experts = 1,
                 .weighs_inputs = true,
                 .experts_transposed = In::kHf},
};

std::array<std::span<const Architecture>, 2> all_rows() { return {kArchitectures, recurrent_families()}; }

const Architecture* find_row(bool gguf, std::string_view name) {
  for (const std::span<const Architecture> rows : all_rows()) {
    for (const Architecture& row : rows) {
      if (!name.empty() && (gguf ? row.gguf_name : row.hf_model_type) == name) return &row;
    }
  }
  return nullptr;
}

// Sets the fields of `config` that depend only on the architecture's row.
void take_row(const Architecture& row, bool gguf, ModelConfig& config) {
  config.architecture = gguf ? row.gguf_name : row.hf_model_type;
  config.tensor_names = row.tensor_names;
  config.adjacent_pairs = is_in(row.adjacent_pairs, gguf);
  config.norms_minus_one = is_in(row.norms_minus_one, gguf);
  config.qkv_by_group = is_in(row.qkv_by_group, gguf);
  config.transposed = is_in(row.transposed, gguf);
  config.norm = row.norm;
  config.norm_places = row.norm_places;
  config.qk_norm = row.qk_norm;
  config.qk_norm_after_rope = row.qk_norm_after_rope;
  config.value_norm = row.value_norm;
  config.scaled_layers = row.scaled_layers;
  config.attention_gate = row.attention_gate;
  config.gate_beside_query = row.gate_beside_query;
  config.learned_positions = row.rope_layers == RopeLayers::kNone;
  config.gated = row.gated;
}

// Finds the embedding tensor, and sets config.name_prefix to the prefix under which it was found. Checkpoints without
// an LM head have names without the prefix; vision models have another prefix before it.
const TensorView* find_embedding(const ModelFile& file, const Architecture& row, ModelConfig& config) {
  const std::string usual = row.hf_prefix;
  for (const std::string& prefix : {usual, std::string(), "language_model." + usual, usual + "language_model."}) {
    config.name_prefix = prefix;
    const TensorView* embed = file.find_tensor(tensor_name(file, config, TensorRole::kEmbed));
    if (embed != nullptr) return embed;
  }
  config.name_prefix = usual;
  return nullptr;
}

// Reads the vocabulary size. GGUF often lacks the key; then the size is the number of rows of the embedding tensor.
Status read_vocab_size(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  const TensorView* embed = find_embedding(file.file(), row, config);
  const std::string name = tensor_name(file.file(), config, TensorRole::kEmbed);
  if (embed == nullptr) return {ErrorCode::kMissingTensor, file.file().path() + ": " + name + " is missing"};
  if (embed->shape.rank != 2 || embed->shape[0] == 0 || embed->shape[0] > kMaxWidth) {
    return {ErrorCode::kBadShape,
            file.file().path() + ": " + name + " is " + embed->shape.to_string() + ", expected [vocab_size, dim]"};
  }
  TRY_ASSIGN(config.vocab_size, file.integer(keys::kVocabSize, 1, kMaxWidth, embed->shape[0]));
  return {};
}

// Reads whether queries and keys pass through norms that have no weight. GGUF has no key for this: the only Llama 4
// model without such norms is recognised by its 128 experts.
Status read_unweighted_norms(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kNorms{"norms of queries and keys", "", "use_qk_norm"};
  constexpr size_t kWithout = 128;
  TRY_ASSIGN(const size_t n_experts, file.integer(keys::kExperts, 0, kMaxWidth, size_t{0}));
  TRY_ASSIGN(const bool normed, file.flag(kNorms, !file.gguf() || n_experts != kWithout));
  if (!normed) config.qk_norm = QkNorm::kNone;
  return {};
}

// Error: kUnsupported for features that models of supported architectures may have, but that are not implemented.
Status refuse_what_is_missing(const Hyperparameters& file, const ModelConfig& config) {
  constexpr Key kRefused[] = {{"ALiBi positions", "", "alibi"},
                              {"bidirectional attention", "", "use_bidirectional_attention"}};
  constexpr Key kQkNorms{"query and key norms", "", "use_qk_norm|qk_layernorm"};
  std::vector<Key> refused(std::begin(kRefused), std::end(kRefused));
  if (config.qk_norm == QkNorm::kNone) refused.push_back(kQkNorms);
  for (const Key& key : refused) {
    // The value may be a string. "vision" concerns only image tokens, which are not supported, so that value is
    // ignored.
    const auto name = file.text(key);
    const bool named = name.ok() && name->has_value();
    const Result<bool> asked = named ? Result<bool>(**name != "vision") : file.flag(key, false);
    TRY(asked.status());
    if (*asked) {
      return {ErrorCode::kUnsupported, file.file().path() + ": " + file.key_of(key) + " (" + key.name +
                                           ") is not supported in a model of " + config.architecture};
    }
  }
  const std::string q_norm = tensor_name(file.file(), config, TensorRole::kQNorm);
  if (config.qk_norm != QkNorm::kNone || file.file().find_tensor(q_norm) == nullptr) return {};
  return {ErrorCode::kUnsupported, file.file().path() + ": tensor " + q_norm +
                                       " (a query norm) is not supported in a model of " + config.architecture};
}

// True if the file has an LM head other than the embedding; it is used even if `tied` is set, as in transformers 5.
bool has_other_head(const ModelFile& file, const ModelConfig& config) {
  const TensorView* head = file.find_tensor(tensor_name(file, config, TensorRole::kLmHead));
  const TensorView* embed = file.find_tensor(tensor_name(file, config, TensorRole::kEmbed));
  if (head == nullptr || embed == nullptr) return false;
  return head->dtype != embed->dtype || !std::ranges::equal(head->data, embed->data);
}

Status read_factors(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  constexpr Key kScaled{"use of the embedding scale", "", "mup_enabled"};
  TRY_ASSIGN(const bool scaled, file.flag(kScaled, true));
  const bool by_dim = row.embed_scale_is_sqrt_dim && scaled;
  const double usual = by_dim ? std::sqrt(static_cast<double>(config.dim)) : 1.0;
  TRY_ASSIGN(const double embed, file.positive(keys::kEmbedScale, kMaxFactor, usual));
  TRY_ASSIGN(const double residual, file.positive(keys::kResidualScale, kMaxFactor, 1.0));
  TRY_ASSIGN(const double logit, file.positive(keys::kLogitScale, kMaxFactor, 1.0));
  TRY_ASSIGN(const double softcap, read_softcap(file, keys::kLogitSoftcap, row.logit_softcap));
  if (softcap < 0) return file.bad(keys::kLogitSoftcap, std::to_string(softcap), "a positive number, or 0 for none");
  config.embed_scale = static_cast<float>(embed);
  config.residual_scale = static_cast<float>(residual);
  // Round to float before dividing, because GGUF stores a float.
  const auto factor = static_cast<float>(logit);
  config.logit_scale = row.logits_are_divided ? 1.0f / factor : factor;
  config.logit_softcap = static_cast<float>(softcap);
  return {};
}

}  // namespace

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const std::span<const Architecture> rows : all_rows()) {
    for (const Architecture& row : rows) {
      for (const std::string_view name : {row.gguf_name, row.hf_model_type}) {
        if (!name.empty() && std::ranges::find(names, name) == names.end()) names.emplace_back(name);
      }
    }
  }
  return names;
}

Result<ArchitectureMatch> find_architecture(const ModelFile& file) {
  const bool gguf = file.container() == Container::kGguf;
  const char* key = gguf ? "general.architecture" : "model_type";
  TRY_ASSIGN(const std::optional<std::string_view> name, file.get_string(key));
  if (!name) return Status(ErrorCode::kMissingKey, file.path() + ": " + key + " is missing");
  // In vision models the keys of the language model are at the top level or, since transformers 4.52, in a section.
  if (!gguf && file.has("text_config.model_type")) {
    TRY_ASSIGN(const std::optional<std::string_view> of_text, file.get_string("text_config.model_type"));
    if (const Architecture* row = find_row(gguf, *of_text)) return ArchitectureMatch{row, "text_config."};
  }
  if (const Architecture* row = find_row(gguf, *name)) {
    return ArchitectureMatch{row, gguf ? std::string(row->gguf_name) + "." : ""};
  }
  return Status(ErrorCode::kUnsupported,
                file.path() + ": architecture '" + std::string(*name) +
                    "' is not supported (supported: " + joined(supported_architectures(), ", ") + ")");
}

const Architecture* written_architecture(const Architecture& row, const ModelConfig& config) {
  const std::string_view by_experts = config.has_experts() ? row.written_moe : row.written_dense;
  const std::string_view other = config.recurs() && !row.written_recurrent.empty() ? row.written_recurrent : by_experts;
  return find_row(true, other.empty() ? row.gguf_name : other);
}

Result<ModelConfig> read_config(const ModelFile& model_file) {
  constexpr Key kTied{"tied", "", "tie_word_embeddings"};
  TRY(refuse_other_files(model_file));
  TRY_ASSIGN(const ArchitectureMatch match, find_architecture(model_file));
  const Architecture& row = *match.row;
  const Hyperparameters file(model_file, match.prefix);

  ModelConfig config;
  TRY_ASSIGN(config.pooling, read_pooling(model_file, match.prefix));
  take_row(row, file.gguf(), config);
  TRY(read_shape(file, row, config));
  TRY(read_vocab_size(file, row, config));
  TRY(read_layer_kinds(file, row, config));
  const std::string q_norm = tensor_name(model_file, config, TensorRole::kQNorm);
  if (row.qk_norm_may_be_absent && model_file.find_tensor(q_norm) == nullptr) config.qk_norm = QkNorm::kNone;
  if (row.qk_norm == QkNorm::kUnweighted) TRY(read_unweighted_norms(file, config));
  TRY(refuse_what_is_missing(file, config));
  TRY_ASSIGN(const double eps, file.positive(keys::kNormEps, 1.0));
  config.norm_eps = static_cast<float>(eps);
  TRY_ASSIGN(config.parallel, file.flag(keys::kParallel, row.parallel));
  TRY_ASSIGN(config.tied, file.flag(kTied, false));
  // The LM head belongs to the whole vision model, so tie_word_embeddings at the top level of config.json overrides the
  // same key in the language model's section.
  TRY_ASSIGN(config.tied, Hyperparameters(model_file, "").flag(kTied, config.tied));
  config.tied = config.tied && !has_other_head(model_file, config);
  TRY(read_layers(file, row, config));
  TRY(read_heads(file, row, config));
  TRY(read_ropes(file, row, config));
  TRY(read_attention(file, row, config));
  TRY(read_recurrent(file, row, config));
  TRY(read_factors(file, row, config));
  TRY(read_beside_layers(file, config));
  TRY(read_moe(file, row, config));
  return config;
}

}  // namespace ibid
