#include "apps/serve/service/model_host.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace ibid::serve {

struct ModelHost::Model {
  std::string name;
  std::string path;
  FileState file;                  // of what is loaded, or of the first look at it
  std::shared_ptr<Engine> engine;
  bool is_loading = false;
  int64_t asked_ns = 0;            // last
  uint64_t n_bytes = 0;            // of what is loaded
};

namespace {

std::string name_of_path(const std::string& path) {
  std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  if (!file.has_filename()) file = file.parent_path();
  return file.extension() == ".gguf" ? file.stem().string() : file.filename().string();
}

}  // namespace

ModelHost::ModelHost(Loader loader, Clock& clock, const ModelHostOptions& options)
    : loader_(std::move(loader)), clock_(clock), options_(options) {}
ModelHost::~ModelHost() = default;

Result<ModelHost::FileState> ModelHost::look_at(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return {code, path + ": " + std::strerror(errno)};
  }
  FileState state;
  state.changed_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
  state.inode = info.st_ino;
  state.bytes = static_cast<uint64_t>(info.st_size);
  if (!S_ISDIR(info.st_mode)) return state;
  state.bytes = 0;
  std::error_code error;  // a file that goes meanwhile does not count
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    struct stat part {};
    if (stat(entry.path().c_str(), &part) != 0 || !S_ISREG(part.st_mode)) continue;
    state.bytes += static_cast<uint64_t>(part.st_size);
    state.changed_ns = std::max(state.changed_ns, part.st_mtim.tv_sec * 1'000'000'000 + part.st_mtim.tv_nsec);
  }
  return state;
}

Result<std::unique_ptr<ModelHost>> ModelHost::create(std::vector<std::string> paths, Loader loader, Clock& clock,
                                                     const ModelHostOptions& options) {
  if (paths.empty()) return {ErrorCode::kInvalidArgument, "a server has at least one model"};
  std::unique_ptr<ModelHost> host(new ModelHost(std::move(loader), clock, options));
  for (std::string& path : paths) {
    auto model = std::make_unique<Model>();
    model->name = name_of_path(path);
    model->path = std::move(path);
    if (const Result<FileState> file = look_at(model->path); file.ok()) model->file = *file;
    for (const std::unique_ptr<Model>& other : host->models_) {
      if (other->name != model->name) continue;
      return {ErrorCode::kInvalidArgument,
              "two models are called " + model->name + ": " + other->path + " and " + model->path};
    }
    host->models_.push_back(std::move(model));
  }
  if (options.load_at_once) TRY(host->get({}).status());
  return host;
}

Result<ModelHost::Model*> ModelHost::find(std::string_view name) const {
  if (name.empty()) return models_.front().get();
  std::string names;
  for (const std::unique_ptr<Model>& model : models_) {
    if (model->name == name) return model.get();
    names += (names.empty() ? "" : ", ") + model->name;
  }
  return {ErrorCode::kNotFound, "there is no model \"" + std::string(name) + "\"; there is " + names};
}

Result<std::string> ModelHost::resolve(std::string_view name) const {
  TRY_ASSIGN(const Model* model, find(name));  // names never change
  return model->name;
}

// Whether the file is another one than what was loaded of it. One that is gone for a moment is being replaced: what is
// loaded goes on.
bool ModelHost::is_stale(const Model& model) const {
  const Result<FileState> now = look_at(model.path);
  return now.ok() && !(*now == model.file);
}

Result<std::shared_ptr<Engine>> ModelHost::get_loaded(std::string_view name) {
  const std::lock_guard lock(mutex_);
  TRY_ASSIGN(Model * model, find(name));
  model->asked_ns = clock_.steady_ns();
  if (model->is_loading || model->engine == nullptr || is_stale(*model)) return std::shared_ptr<Engine>();
  return model->engine;
}

Result<std::shared_ptr<Engine>> ModelHost::get(std::string_view name) {
  std::unique_lock lock(mutex_);
  TRY_ASSIGN(Model * model, find(name));
  changed_.wait(lock, [&] { return !model->is_loading; });
  model->asked_ns = clock_.steady_ns();
  // A file that was replaced: no two are in memory at once, so what is in use serves until nobody uses it.
  if (model->engine != nullptr && is_stale(*model)) let_go(*model, lock);
  if (model->engine != nullptr) return model->engine;
  return load(*model, lock);
}

Result<std::shared_ptr<Engine>> ModelHost::load(Model& model, std::unique_lock<std::mutex>& lock) {
  TRY_ASSIGN(const FileState file, look_at(model.path));
  model.is_loading = true;
  Result<std::shared_ptr<Engine>> engine = std::shared_ptr<Engine>();
  if (Status status = make_room(model, file.bytes, lock); !status.ok()) {
    engine = std::move(status);
  } else {
    lock.unlock();
    engine = loader_(model.path);
    lock.lock();
  }
  if (engine.ok()) {
    const uint64_t n_bytes = file.bytes + (*engine)->pool().budget_bytes();
    if (Status status = make_room(model, n_bytes, lock); !status.ok()) {
      engine = std::move(status);
    } else {
      model.engine = *engine;
      model.n_bytes = n_bytes;
      model.file = file;
      model.asked_ns = clock_.steady_ns();
    }
  }
  model.is_loading = false;
  changed_.notify_all();
  return engine;
}

uint64_t ModelHost::n_bytes_loaded() const {
  uint64_t n = 0;
  for (const std::unique_ptr<Model>& model : models_) n += model->engine == nullptr ? 0 : model->n_bytes;
  return n;
}

Status ModelHost::make_room(const Model& wants, uint64_t bytes, std::unique_lock<std::mutex>& lock) {
  const uint64_t budget = options_.memory_budget_bytes;
  if (budget == 0) return {};
  std::vector<Model*> by_age;
  for (const std::unique_ptr<Model>& model : models_) by_age.push_back(model.get());
  std::sort(by_age.begin(), by_age.end(), [](const Model* a, const Model* b) { return a->asked_ns < b->asked_ns; });
  for (Model* model : by_age) {
    if (n_bytes_loaded() + bytes <= budget) return {};
    if (model->engine != nullptr && !model->is_loading) let_go(*model, lock);
  }
  const uint64_t others = n_bytes_loaded();
  if (others + bytes <= budget) return {};
  return {ErrorCode::kOutOfMemory, wants.name + " takes " + std::to_string(bytes) +
                                       " bytes, and of the models' budget of " + std::to_string(budget) + " bytes " +
                                       std::to_string(others) + " are in use by others"};
}

// Without the lock, because whoever drops the last pointer waits for the compute thread, and for what the tier writes.
bool ModelHost::let_go(Model& model, std::unique_lock<std::mutex>& lock) {
  std::shared_ptr<Engine> engine = std::exchange(model.engine, nullptr);
  const std::weak_ptr<Engine> old = engine;
  model.is_loading = true;  // nobody else loads or unloads it meanwhile
  lock.unlock();
  if (on_unload_) on_unload_(*engine);
  engine.reset();
  engine = old.lock();
  lock.lock();
  model.is_loading = false;
  model.engine = std::move(engine);
  changed_.notify_all();
  return model.engine == nullptr;
}

std::vector<HostedModel> ModelHost::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<HostedModel> out;
  for (const std::unique_ptr<Model>& model : models_) {
    out.push_back({model->name, model->path, model->file.bytes, model->file.changed_ns / 1'000'000'000,
                   model->engine != nullptr, model->engine});
  }
  return out;
}

void ModelHost::unload_idle() {
  if (options_.keep_alive.count() < 0) return;
  std::unique_lock lock(mutex_);
  const int64_t limit_ns = options_.keep_alive.count() * 1'000'000;
  for (const std::unique_ptr<Model>& model : models_) {
    const bool is_idle = clock_.steady_ns() - model->asked_ns >= limit_ns;
    if (is_idle && model->engine != nullptr && !model->is_loading) let_go(*model, lock);
  }
}

Status ModelHost::unload(std::string_view name) {
  std::unique_lock lock(mutex_);
  TRY_ASSIGN(Model * model, find(name));
  changed_.wait(lock, [&] { return !model->is_loading; });
  if (model->engine != nullptr) let_go(*model, lock);
  return {};
}

}  // namespace ibid::serve
