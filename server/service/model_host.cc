#include "server/service/model_host.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>

#include "base/dtype.h"
#include "base/text.h"

namespace ibid::serve {

struct ModelHost::SharedState {
  mutable std::mutex mutex;  // guards the following members and every Model
  std::condition_variable changed;
  uint64_t n_returned = 0;
};

struct ModelHost::Model : std::enable_shared_from_this<Model> {
  std::string name;
  std::string path;
  std::vector<std::string> aliases;
  TurnOptions recommended;
  FileState file;  // state of the file at the last load; before the first load, at the host's creation
  std::shared_ptr<Engine> engine;
  bool is_loading = false;  // a thread is loading or unloading the model
  size_t n_leases = 0;
  int64_t used_ns = 0;      // time of the last request or return of a lease
  uint64_t n_bytes = 0;     // memory of the loaded model
  uint64_t n_kv_bytes = 0;  // size of the KV budget of the model at its last load
  std::optional<std::chrono::milliseconds> keep_alive;
  Status load_failure;  // error of the last attempt to load
};

namespace {

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

std::string name_of_path(const std::string& path) {
  std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  if (!file.has_filename()) file = file.parent_path();
  return file.extension() == ".gguf" ? file.stem().string() : file.filename().string();
}

// Names of the values of general.file_type in GGUF (llama.h, enum llama_ftype).
constexpr std::array<std::string_view, 39> kFileTypes = {
    "F32",    "F16",    "Q4_0",   "Q4_1",    "",       "",       "",       "Q8_0",   "Q5_0",  "Q5_1",
    "Q2_K",   "Q3_K_S", "Q3_K_M", "Q3_K_L",  "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K",  "IQ2_XXS",
    "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",  "IQ3_M",  "IQ2_S", "IQ2_M",
    "IQ4_XS", "IQ1_M",  "BF16",   "",        "",       "",       "TQ1_0",  "TQ2_0",  "MXFP4"};

std::string text_of(const ModelFile& file, std::string_view key) {
  const Result<std::optional<std::string_view>> text = file.get_string(key);
  return text.ok() && *text ? std::string(**text) : std::string();
}

size_t count_of(const ModelFile& file, const std::string& key) {
  const Result<std::optional<int64_t>> number = file.get_int(key);
  return number.ok() && *number && **number > 0 ? static_cast<size_t>(**number) : 0;
}

std::string_view type_of_most(const ModelFile& file, uint64_t& n_params) {
  std::array<uint64_t, kDTypeCount> n_of_type{};
  size_t most = 0;
  for (const std::string& name : file.tensor_names()) {
    const TensorView* tensor = file.find_tensor(name);
    if (tensor == nullptr) continue;
    const auto type = static_cast<size_t>(tensor->dtype);
    n_params += tensor->shape.elements();
    n_of_type.at(type) += tensor->shape.elements();
    if (n_of_type.at(type) > n_of_type.at(most)) most = type;
  }
  return n_params > 0 ? dtype_name(static_cast<DType>(most)) : std::string_view();
}

}  // namespace

ModelLease::ModelLease(std::shared_ptr<ModelHost::SharedState> state, std::shared_ptr<ModelHost::Model> model,
                       Clock* clock)
    : shared_state_(std::move(state)), model_(std::move(model)), clock_(clock), engine_(model_->engine) {
  ++model_->n_leases;
}

ModelLease::~ModelLease() {
  const std::lock_guard lock(shared_state_->mutex);
  engine_.reset();  // never the last pointer: Model::engine is kept while leases exist
  --model_->n_leases;
  if (clock_ != nullptr) model_->used_ns = clock_->steady_ns();
  ++shared_state_->n_returned;
  shared_state_->changed.notify_all();
}

std::shared_ptr<const Tokenizer> tokenizer_of_lease(ModelLeasePtr lease) {
  const Tokenizer* tokenizer = &lease->engine()->state().tokenizer();
  return std::shared_ptr<const Tokenizer>(std::move(lease), tokenizer);
}

ModelHost::ModelHost(Loader loader, Clock& clock, const ModelHostOptions& options)
    : loader_(std::move(loader)), clock_(clock), options_(options), shared_state_(std::make_shared<SharedState>()) {}
ModelHost::~ModelHost() = default;

Result<ModelHost::FileState> ModelHost::look_at(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return {code, path + ": " + std::strerror(errno)};
  }
  FileState state;
  Sha256 hash;
  const auto add = [&](const std::string& name, const struct stat& file) {
    const int64_t modified_ns = nanoseconds(file.st_mtim);
    const std::array<int64_t, 5> numbers = {static_cast<int64_t>(name.size()), static_cast<int64_t>(file.st_ino),
                                            file.st_size, modified_ns, nanoseconds(file.st_ctim)};
    hash.update(name);
    hash.update(std::as_bytes(std::span(numbers)));
    state.bytes += static_cast<uint64_t>(file.st_size);
    state.changed_ns = std::max(state.changed_ns, modified_ns);
  };
  if (!S_ISDIR(info.st_mode)) {
    add("", info);
    state.identity = hash.finish();
    return state;
  }
  state.changed_ns = nanoseconds(info.st_mtim);
  std::set<std::string> names;
  std::error_code error;  // the error is ignored, because the directory may disappear meanwhile
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) names.insert(entry.path().string());
  for (const std::string& name : names) {
    struct stat part {};
    if (stat(name.c_str(), &part) == 0 && S_ISREG(part.st_mode)) add(name, part);
  }
  state.identity = hash.finish();
  return state;
}

Result<std::unique_ptr<ModelHost>> ModelHost::create(std::vector<ModelSource> sources, Loader loader, Clock& clock,
                                                     const ModelHostOptions& options) {
  if (sources.empty()) return {ErrorCode::kInvalidArgument, "a server needs at least one model"};
  std::unique_ptr<ModelHost> host(new ModelHost(std::move(loader), clock, options));
  for (ModelSource& source : sources) {
    auto model = std::make_shared<Model>();
    model->name = name_of_path(source.path);
    model->path = std::move(source.path);
    model->aliases = std::move(source.aliases);
    model->recommended = source.recommended;
    if (const Result<FileState> file = look_at(model->path); file.ok()) model->file = *file;
    for (const std::shared_ptr<Model>& other : host->models_) {
      if (!equals_ignoring_case(other->name, model->name)) continue;
      return {ErrorCode::kInvalidArgument,
              "two models have the name " + model->name + ": " + other->path + " and " + model->path};
    }
    host->models_.push_back(std::move(model));
  }
  if (options.load_at_once) TRY(host->get({}).status());
  return host;
}

// Finds a model by name, else by alias, else by a name with a tag. Names and aliases never change, so no lock is
// needed.
Result<ModelHost::Model*> ModelHost::find(std::string_view name) const {
  if (name.empty()) return models_.front().get();
  constexpr std::string_view kLatestTag = ":latest";
  std::vector<std::string_view> wanted = {name};
  if (name.ends_with(kLatestTag)) wanted.push_back(name.substr(0, name.size() - kLatestTag.size()));
  for (const std::string_view one : wanted) {
    for (const std::shared_ptr<Model>& model : models_) {
      if (equals_ignoring_case(model->name, one)) return model.get();
    }
    const auto is_it = [&](const std::string& alias) { return equals_ignoring_case(alias, one); };
    for (const std::shared_ptr<Model>& model : models_) {
      if (std::ranges::any_of(model->aliases, is_it)) return model.get();
    }
  }
  std::string names;
  for (const std::shared_ptr<Model>& model : models_) names += (names.empty() ? "" : ", ") + model->name;
  return {ErrorCode::kNotFound, "no model \"" + std::string(name) + "\"; available: " + names};
}

Result<std::string> ModelHost::resolve(std::string_view name) const {
  TRY_ASSIGN(const Model* model, find(name));
  return model->name;
}

Result<TurnOptions> ModelHost::recommended(std::string_view name) const {
  TRY_ASSIGN(const Model* model, find(name));
  return model->recommended;
}

// True if the file has changed since it was loaded. A missing file counts as unchanged, because a program may be
// replacing it.
bool ModelHost::is_stale(const Model& model) const {
  const Result<FileState> now = look_at(model.path);
  return now.ok() && !(*now == model.file);
}

ModelLeasePtr ModelHost::checkout(Model& model) const {
  return std::make_shared<const ModelLease>(shared_state_, model.shared_from_this(), &clock_);
}

Result<ModelLeasePtr> ModelHost::get_loaded(std::string_view name) {
  const std::lock_guard lock(shared_state_->mutex);
  TRY_ASSIGN(Model * model, find(name));
  model->used_ns = clock_.steady_ns();
  if (model->is_loading || model->engine == nullptr || is_stale(*model)) return ModelLeasePtr();
  return checkout(*model);
}

Result<ModelLeasePtr> ModelHost::get(std::string_view name) {
  Lock lock(shared_state_->mutex);
  TRY_ASSIGN(Model * model, find(name));
  for (;;) {
    const uint64_t n_returned = shared_state_->n_returned;
    Result<ModelLeasePtr> lease = get_if_free(*model, lock);
    if (!lease.ok() || *lease != nullptr) return lease;
    shared_state_->changed.wait(lock, [&] { return shared_state_->n_returned != n_returned; });
  }
}

Result<ModelLeasePtr> ModelHost::try_get(std::string_view name) {
  Lock lock(shared_state_->mutex);
  TRY_ASSIGN(Model * model, find(name));
  Result<ModelLeasePtr> lease = get_if_free(*model, lock);
  if (lease.ok() || model->load_failure.ok()) return lease;
  const Status failure = std::exchange(model->load_failure, Status());
  lock.unlock();
  if (options_.remark) options_.remark(model->name + " cannot be loaded: " + failure.message());
  return {ErrorCode::kIo, model->name + " cannot be loaded"};
}

uint64_t ModelHost::n_returned() const {
  const std::lock_guard lock(shared_state_->mutex);
  return shared_state_->n_returned;
}

// Returns a lease on the model, which is loaded if necessary. Returns null if it would have to wait until users of a
// model return their leases.
Result<ModelLeasePtr> ModelHost::get_if_free(Model& model, Lock& lock) {
  shared_state_->changed.wait(lock, [&] { return !model.is_loading; });
  model.used_ns = clock_.steady_ns();
  model.load_failure = {};
  if (model.engine != nullptr && is_stale(model)) {
    if (model.n_leases > 0) return ModelLeasePtr();
    unload(model, lock);
  }
  if (model.engine != nullptr) return checkout(model);
  return load(model, lock);
}

Result<ModelLeasePtr> ModelHost::load(Model& model, Lock& lock) {
  const Result<FileState> file = look_at(model.path);
  if (!file.ok()) return model.load_failure = file.status();
  model.is_loading = true;
  const auto is_over = [&](Result<ModelLeasePtr> result) {
    model.is_loading = false;
    shared_state_->changed.notify_all();
    return result;
  };
  // The size of the KV budget is known after the first load, so later loads check it before they read the file.
  const Result<bool> fits = make_room(model, file->bytes + model.n_kv_bytes, lock);
  if (!fits.ok()) return is_over(fits.status());
  if (!*fits) return is_over(ModelLeasePtr());
  lock.unlock();
  Result<std::shared_ptr<Engine>> engine = loader_(model.path);
  lock.lock();
  if (!engine.ok()) return is_over(model.load_failure = engine.status());
  model.n_kv_bytes = (*engine)->state().pool().budget_bytes();
  const uint64_t n_bytes = file->bytes + model.n_kv_bytes;
  const Result<bool> all_fits = make_room(model, n_bytes, lock);
  if (!all_fits.ok() || !*all_fits) {
    lock.unlock();
    *engine = nullptr;  // destroy the engine without the lock, as in unload()
    lock.lock();
    return is_over(all_fits.ok() ? Result<ModelLeasePtr>(ModelLeasePtr()) : all_fits.status());
  }
  model.engine = *std::move(engine);
  model.n_bytes = n_bytes;
  model.file = *file;
  model.used_ns = clock_.steady_ns();
  return is_over(checkout(model));
}

uint64_t ModelHost::n_bytes_loaded() const {
  uint64_t n = 0;
  for (const std::shared_ptr<Model>& model : models_) n += model->engine == nullptr ? 0 : model->n_bytes;
  return n;
}

Result<bool> ModelHost::make_room(const Model& wants, uint64_t bytes, Lock& lock) {
  const uint64_t budget = options_.memory_budget_bytes;
  if (budget == 0) return true;
  if (bytes > budget) {
    return {ErrorCode::kOutOfMemory, wants.name + " needs " + std::to_string(bytes) + " bytes, the memory budget is " +
                                         std::to_string(budget) + " bytes"};
  }
  std::vector<Model*> by_age;
  for (const std::shared_ptr<Model>& model : models_) by_age.push_back(model.get());
  std::ranges::sort(by_age, {}, [](const Model* model) { return model->used_ns; });
  for (Model* model : by_age) {
    if (n_bytes_loaded() + bytes <= budget) return true;
    if (model->engine != nullptr && model->n_leases == 0 && !model->is_loading) unload(*model, lock);
  }
  return n_bytes_loaded() + bytes <= budget;
}

// Unloads a model. Releases the lock meanwhile, because destroying the engine waits for the compute thread and for
// writes of the disk tier. REQUIRES: the model has no leases.
void ModelHost::unload(Model& model, Lock& lock) {
  std::shared_ptr<Engine> engine = std::exchange(model.engine, nullptr);
  model.keep_alive.reset();
  model.is_loading = true;  // prevents other threads from loading or unloading the model meanwhile
  lock.unlock();
  if (on_unload_) on_unload_(*engine);
  engine.reset();
  lock.lock();
  model.is_loading = false;
  ++shared_state_->n_returned;  // unloading frees memory too, so waiting requests try again
  shared_state_->changed.notify_all();
}

std::optional<std::chrono::nanoseconds> ModelHost::time_left(const Model& model) const {
  const std::chrono::nanoseconds limit = model.keep_alive.value_or(options_.keep_alive);
  if (limit.count() < 0) return std::nullopt;
  const std::chrono::nanoseconds idle{model.n_leases > 0 ? 0 : clock_.steady_ns() - model.used_ns};
  return std::max(limit - idle, std::chrono::nanoseconds(0));
}

std::vector<HostedModel> ModelHost::list() const {
  const std::lock_guard lock(shared_state_->mutex);
  std::vector<HostedModel> out;
  for (const std::shared_ptr<Model>& model : models_) {
    std::shared_ptr<Engine> engine;
    const std::optional<std::chrono::nanoseconds> unloads_in = time_left(*model);  // before the lease below
    if (model->engine != nullptr) {
      auto lease = std::make_shared<const ModelLease>(shared_state_, model, nullptr);
      engine = std::shared_ptr<Engine>(lease, lease->engine().get());
    }
    out.push_back({model->name, model->path, model->file.bytes, model->file.changed_ns / 1'000'000'000,
                   engine != nullptr, engine, unloads_in});
  }
  return out;
}

Status ModelHost::set_keep_alive(std::string_view name, std::chrono::milliseconds keep_alive) {
  const std::lock_guard lock(shared_state_->mutex);
  TRY_ASSIGN(Model * model, find(name));
  if (model->engine != nullptr) model->keep_alive = keep_alive;
  return {};
}

void ModelHost::unload_idle() {
  Lock lock(shared_state_->mutex);
  for (const std::shared_ptr<Model>& model : models_) {
    if (model->engine == nullptr || model->is_loading || model->n_leases > 0) continue;
    if (time_left(*model) == std::chrono::nanoseconds(0)) unload(*model, lock);
  }
}

ModelHeader read_model_header(const ModelFile& file) {
  const bool is_gguf = file.container() == Container::kGguf;
  ModelHeader header{.format = is_gguf ? "gguf" : "safetensors",
                     .family = text_of(file, is_gguf ? "general.architecture" : "model_type")};
  header.quantization = type_of_most(file, header.n_params);
  if (is_gguf) {
    const size_t made_as = file.has("general.file_type") ? count_of(file, "general.file_type") : kFileTypes.size();
    if (made_as < kFileTypes.size() && !kFileTypes[made_as].empty()) header.quantization = kFileTypes[made_as];
    header.trained_context = count_of(file, header.family + ".context_length");
    header.embedding_dim = count_of(file, header.family + ".embedding_length");
    header.chat_template = text_of(file, "tokenizer.chat_template");
    header.basename = text_of(file, "general.basename");
    return header;
  }
  header.trained_context = count_of(file, "max_position_embeddings");
  header.embedding_dim = count_of(file, "hidden_size");
  if (Result<std::optional<std::string>> source = file.companion("chat_template.jinja"); source.ok() && *source) {
    header.chat_template = **std::move(source);
  }
  return header;
}

ModelHeader ModelHeaders::of(const HostedModel& model) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_path_.find(model.path);
    const bool is_known = known != by_path_.end() && known->second.file_bytes == model.file_bytes &&
                          known->second.created_s == model.created_s;
    if (is_known) return known->second.header;
  }
  const Result<std::unique_ptr<ModelFile>> file = open_model_file(model.path);
  ModelHeader header = file.ok() ? read_model_header(**file) : ModelHeader();
  const std::lock_guard lock(mutex_);
  by_path_[model.path] = {model.file_bytes, model.created_s, header};
  return header;
}

}  // namespace ibid::serve
