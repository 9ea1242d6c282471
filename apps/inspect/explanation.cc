#include "apps/inspect/explanation.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "apps/inspect/facts.h"
#include "apps/terminal/terminal_text.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "model/weights/finite_check.h"
#include "model/weights/unused_tensors.h"
#include "templates/chat_template.h"

namespace ibid {

namespace {

// Plans the memory, and checks that there is room for the weights and the shortest conversation.
Status plan_of(Inspection& inspection, const ModelFile& file, const ModelOptions& options) {
  TRY_ASSIGN(inspection.config, read_config(file));
  TRY_ASSIGN(inspection.kv_noise, estimate_kv_noise(file, *inspection.config, options.n_threads));
  TRY_ASSIGN(inspection.plan, plan_memory(file, *inspection.config, options,
                                          kv_layout_of(*inspection.config, options, inspection.kv_noise)));
  TRY(refuse_unknown_tensors(file, *inspection.config));
  return check_memory(*inspection.plan, inspection.plan->kv_bytes(1));
}

}  // namespace

Result<Inspection> inspect_model(const std::string& path, const ModelOptions& options) {
  Inspection inspection;
  Result<std::unique_ptr<ModelFile>> file = open_model_file(path);
  inspection.verdict = file.ok() ? plan_of(inspection, **file, options) : file.status();
  if (!file.ok()) file = open_model_file(path, {.vocabulary_only = true});
  const bool shows_something = file.ok() && (inspection.runs() || !(*file)->describe_metadata().empty());
  if (!shows_something) return inspection.verdict;
  inspection.file = *std::move(file);
  return inspection;
}

void inspect_weights(Inspection& inspection, int n_threads, const std::function<void(uint64_t)>& progress) {
  if (!inspection.runs()) return;
  const Result<std::unique_ptr<ThreadTeam>> team =
      ThreadTeam::create(n_threads, OversubscriptionPolicy::kSkipLateThreads);
  inspection.verdict =
      team.ok() ? check_finite_weights(*inspection.file, *inspection.config, **team, progress) : team.status();
}

namespace {

constexpr size_t kUsualContexts[] = {4096, 32768};

// Returns the memory needs for the requested context, or else for usual contexts and the trained one.
std::vector<MemoryNeed> memory_needs(const Inspection& inspection, const ModelOptions& options) {
  std::vector<size_t> contexts;
  if (options.max_seq_len != 0) {
    contexts.push_back(options.max_seq_len);
  } else {
    for (const size_t usual : kUsualContexts) {
      if (usual < inspection.config->trained_context) contexts.push_back(usual);
    }
    contexts.push_back(inspection.config->trained_context);
  }
  std::vector<MemoryNeed> needs;
  for (const size_t context : contexts) {
    MemoryNeed need{context, {}};
    for (size_t i = 0; i < kKvTypes.size(); ++i) {
      ModelOptions with = options;
      with.max_seq_len = context;
      with.kv_dtype = kKvTypes[i].dtype;
      const Result<MemoryPlan> plan = plan_memory(*inspection.file, *inspection.config, with,
                                                  kv_layout_of(*inspection.config, with, inspection.kv_noise));
      if (!plan.ok()) return needs;
      need.bytes[i] = plan->fixed_bytes() + plan->kv_bytes(context);
    }
    needs.push_back(need);
  }
  return needs;
}

// Prints names and values in two columns. Further lines of a value stay in its column.
void print_facts(const char* title, const Facts& facts) {
  constexpr int kNameWidth = 18;
  if (facts.empty()) return;
  std::printf("\n%s\n", title);
  for (const Fact& fact : facts) {
    const char* name = fact.name.c_str();
    for (size_t begin = 0; begin <= fact.text.size();) {
      const size_t end = std::min(fact.text.find('\n', begin), fact.text.size());
      std::printf("  %-*s %s\n", kNameWidth, name, one_line(fact.text.substr(begin, end - begin)).c_str());
      name = "";
      begin = end + 1;
    }
  }
}

// Escapes newlines, which template texts contain.
Facts in_one_line(Facts facts) {
  for (Fact& fact : facts) fact.text = one_line(fact.text);
  return facts;
}

void print_types(const std::vector<TensorUse>& uses) {
  if (uses.empty()) return;
  uint64_t all = 0;
  for (const TensorUse& use : uses) all += use.tensor.bytes();
  std::printf("\ntensors\n");
  for (const TypeShare& share : type_shares(uses)) {
    std::printf("  %-18s %-8s %6zu  %9s  %5.1f %%\n", std::string(share.tensor_class).c_str(),
                std::string(share.type).c_str(), share.n_tensors, format_bytes(share.bytes).c_str(),
                all == 0 ? 0 : 100.0 * static_cast<double>(share.bytes) / static_cast<double>(all));
  }
}

void print_needs(const std::vector<MemoryNeed>& needs) {
  if (needs.empty()) return;
  const size_t available = available_memory_bytes();
  std::printf("\nmemory by context length and KV type (* does not fit)\n  %-18s", "");
  for (const KvType& type : kKvTypes) std::printf(" %10s", type.name);
  std::puts("");
  for (const MemoryNeed& need : needs) {
    std::printf("  %-18zu", need.context);
    for (const size_t bytes : need.bytes) {
      std::printf(" %9s%s", format_bytes(bytes).c_str(), bytes > available ? "*" : " ");
    }
    std::puts("");
  }
}

void print_verdict(const Explanation& explanation) {
  const Inspection& inspection = explanation.inspection;
  if (inspection.runs()) {
    std::puts("runs: yes");
  } else {
    std::printf("runs: no, %s\n", one_line(inspection.verdict.message()).c_str());
  }
  if (!explanation.chat.ok()) {
    std::printf("chats: no, %s\n", one_line(explanation.chat.message()).c_str());
  } else if (inspection.runs()) {
    std::puts("chats: yes");
  }
  if (inspection.plan) {
    const MemoryPlan& plan = *inspection.plan;
    std::printf("memory: %s for weights (packed), %s of scratch\n", format_bytes(plan.weights_bytes).c_str(),
                format_bytes(plan.activations_bytes).c_str());
    std::printf("keys and values: %s per position, %s for a context of %zu\n",
                format_bytes(plan.kv_bytes_per_position).c_str(), format_bytes(plan.kv_bytes(plan.max_seq_len)).c_str(),
                plan.max_seq_len);
    if (plan.state_bytes > 0) {
      std::printf(
          "recurrent layers: %s per state; a conversation works on %zu (counted above), others are "
          "checkpoints\n",
          format_bytes(plan.state_bytes).c_str(), KvLayout::kStatesAtWork);
    }
    std::printf("available: %s\n", format_bytes(available_memory_bytes()).c_str());
  }
  if (!explanation.sampling.empty()) std::printf("sampling in chat and ask: %s\n", explanation.sampling.c_str());
}

}  // namespace

Explanation explain(Inspection inspection, const ModelOptions& options) {
  Explanation all;
  all.inspection = std::move(inspection);
  const ModelFile& file = *all.inspection.file;
  const ModelConfig* config = all.inspection.config ? &*all.inspection.config : nullptr;
  all.uses = tensor_uses(file, config);
  all.model = config != nullptr ? model_facts(file, *config, all.uses) : metadata_facts(file, all.uses);
  std::optional<TokenizerKind> kind;
  Result<std::unique_ptr<Tokenizer>> tokenizer = load_tokenizer(file, kind);
  all.chat = tokenizer.status();
  all.warnings = file.warnings();
  if (tokenizer.ok()) {
    all.tokenizer = *std::move(tokenizer);
    all.warnings.insert(all.warnings.end(), all.tokenizer->warnings().begin(), all.tokenizer->warnings().end());
  }
  const Result<ChatTemplate> chat_template = load_chat_template(file, {}, &all.warnings);
  if (all.tokenizer && chat_template.ok()) add_template_end(*chat_template, *all.tokenizer);
  all.tokens = tokenizer_facts(kind, all.tokenizer.get());
  if (all.chat.ok()) all.chat = chat_template.status();
  if (config != nullptr && config->pooling) {
    all.chat = {ErrorCode::kUnsupported, "it computes embeddings and generates no text"};
  }
  if (chat_template.ok()) all.chat_template = template_facts(*chat_template);
  if (all.inspection.plan) {
    all.needs = memory_needs(all.inspection, options);
    if (config->attends()) all.kv_rows = kv_rows_facts(*config, options, all.inspection.kv_noise);
  }
  return all;
}

void print_explanation(const Explanation& explanation, bool tensors) {
  const ModelFile& file = *explanation.inspection.file;
  print_verdict(explanation);
  std::printf("\n%s  (%s, %s)\n", one_line(file.path()).c_str(),
              file.container() == Container::kGguf ? "GGUF" : "safetensors", format_bytes(file.file_bytes()).c_str());
  print_facts("model", explanation.model);
  print_facts("rows of keys and values", explanation.kv_rows);
  print_types(explanation.uses);
  print_needs(explanation.needs);
  print_facts("tokenizer", in_one_line(explanation.tokens));
  print_facts("chat template", in_one_line(explanation.chat_template));
  std::printf("\nmetadata\n");
  for (const ModelFile::MetadataLine& line : file.describe_metadata()) {
    std::printf("  %-44s %-10s %s\n", one_line(line.key).c_str(), line.type.c_str(), one_line(line.value).c_str());
  }
  if (tensors) std::puts("");
  for (const std::string& name : tensors ? file.tensor_names() : std::vector<std::string>()) {
    const TensorView* tensor = file.find_tensor(name);
    std::printf("  %-44s %-6s %s\n", one_line(name).c_str(), std::string(dtype_name(tensor->dtype)).c_str(),
                tensor->shape.to_string().c_str());
  }
  for (const std::string& warning : explanation.warnings) std::printf("  warning: %s\n", one_line(warning).c_str());
}

void print_check(const Explanation& explanation) {
  constexpr size_t kMostOfAKind = 12;  // maximum number of findings of one kind that are shown
  const Inspection& inspection = explanation.inspection;
  if (!inspection.runs()) std::printf("runs: no, %s\n", one_line(inspection.verdict.message()).c_str());
  const WeightReport& report = *explanation.check;
  std::map<FindingKind, size_t> n_of;
  for (const Finding& finding : report.findings) {
    const size_t n = ++n_of[finding.kind];
    if (n > kMostOfAKind) continue;
    std::printf("%s: %s%s%s\n", is_damage(finding.kind) ? "damaged" : "odd", one_line(finding.tensor).c_str(),
                finding.tensor.empty() ? "" : ": ", finding.text.c_str());
  }
  for (const auto& [kind, n] : n_of) {
    if (n > kMostOfAKind) std::printf("... and %zu tensors more with: %s\n", n - kMostOfAKind, finding_name(kind));
  }
  if (report.n_tensors == 0) {
    std::puts("no weights could be read");
    return;
  }
  std::printf("%s: %zu tensor%s, %s weights, %s read\n", report.sound() ? "sound" : "damaged", report.n_tensors,
              report.n_tensors == 1 ? "" : "s", grouped_text(report.n_values).c_str(),
              format_bytes(report.bytes).c_str());
}

}  // namespace ibid
