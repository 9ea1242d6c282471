#include "apps/inspect/inspection.h"

#include "model/architectures/architectures.h"
#include "model/weights/finite_check.h"
#include "model/weights/unused_tensors.h"

namespace ibid {

namespace {

// The plan, and whether the shortest conversation fits beside the weights.
Status plan_of(Inspection& inspection, const ModelFile& file, const ModelOptions& options) {
  TRY_ASSIGN(inspection.config, read_config(file));
  TRY_ASSIGN(inspection.kv_noise, estimate_kv_noise(file, *inspection.config, options.n_threads));
  TRY_ASSIGN(inspection.plan, plan_memory(file, *inspection.config, options,
                                          kv_layout_of(*inspection.config, options, inspection.kv_noise)));
  TRY(refuse_unknown_tensors(file, *inspection.config));
  return check_memory(*inspection.plan, inspection.plan->kv_bytes(1));
}

}  // namespace

Result<Inspection> look_at_model(const std::string& path, const ModelOptions& options) {
  Inspection inspection;
  Result<std::unique_ptr<ModelFile>> file = open_model_file(path);
  inspection.verdict = file.ok() ? plan_of(inspection, **file, options) : file.status();
  if (!file.ok()) file = open_model_file(path, {.vocabulary_only = true});
  const bool shows_something = file.ok() && (inspection.runs() || !(*file)->describe_metadata().empty());
  if (!shows_something) return inspection.verdict;
  inspection.file = *std::move(file);
  return inspection;
}

void look_at_weights(Inspection& inspection, int n_threads, const std::function<void(uint64_t)>& progress) {
  if (!inspection.runs()) return;
  const Result<std::unique_ptr<ThreadTeam>> team = ThreadTeam::create(n_threads, WhenCrowded::kGiveWay);
  inspection.verdict = team.ok() ? check_finite_weights(*inspection.file, *inspection.config, **team, progress)
                                 : team.status();
}

}  // namespace ibid
