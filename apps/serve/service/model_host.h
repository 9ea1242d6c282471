// ModelHost: the models of a server by name. A model is loaded when it is first asked for, within a memory budget, and
// unloaded when nobody has asked for a while. Whoever has a model's pointer keeps it loaded.
//
// What a model costs is its file and the keys and values that it may have. Where the budget is used up, models that
// nobody else holds are unloaded, the one first that was not asked for the longest time. A model whose file was
// replaced stays what it was (its weights are in memory); it is loaded anew for the next one that asks once nobody
// uses the old one, so that no two are in memory at once.
//
// Thread-safe. load() of one model does not hold up others that are loaded.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/engine/engine.h"

namespace ibid::serve {

struct HostedModel {
  std::string name;           // "smollm2-135m-instruct.q4_1": of its file, without the ending
  std::string path;
  uint64_t file_bytes = 0;
  int64_t created_s = 0;      // of its file, seconds since 1970
  bool is_loaded = false;
  std::shared_ptr<Engine> engine = nullptr;  // where it is loaded
};

struct ModelHostOptions {
  uint64_t memory_budget_bytes = 0;          // of all loaded models' files and keys and values; 0: no limit
  std::chrono::milliseconds keep_alive{-1};  // unload after so long without a request; < 0: never
  bool load_at_once = true;                  // the first model, in create(), so that errors come before the port opens
};

class ModelHost {
 public:
  // How an engine is made of a path; tests give fakes.
  using Loader = std::function<Result<std::shared_ptr<Engine>>(const std::string& path)>;

  // paths: as the command line has them. Errors: kInvalidArgument: two models of one name, or none; those of the
  // loader.
  static Result<std::unique_ptr<ModelHost>> create(std::vector<std::string> paths, Loader loader, Clock& clock,
                                                   const ModelHostOptions& options);
  ~ModelHost();

  // Loads it if need be, on this thread; a second call for the same model waits for the first. Empty: the first model.
  // Errors: kNotFound naming it and those there are; kOutOfMemory: the budget, with both numbers; the loader's.
  Result<std::shared_ptr<Engine>> get(std::string_view name);
  // The same where nothing has to be loaded or waited for; else null. Error: kNotFound, as above.
  Result<std::shared_ptr<Engine>> get_loaded(std::string_view name);
  // The name that a request means: the given one, or the first model's where that is empty. Error: kNotFound, as above.
  Result<std::string> resolve(std::string_view name) const;
  // As the command line had them.
  std::vector<HostedModel> list() const;
  // Unloads what nobody has asked for within keep_alive; called now and then by the service.
  void unload_idle();
  // Unloads, unless somebody uses it. Error: kNotFound.
  Status unload(std::string_view name);

  // Called in front of every unloading, with no lock held, for whoever holds pointers of his own: he lets go of them.
  // Set before any other thread calls.
  void set_on_unload(std::function<void(const Engine&)> on_unload) { on_unload_ = std::move(on_unload); }

 private:
  struct Model;
  struct FileState {
    uint64_t bytes = 0;
    int64_t changed_ns = 0;
    uint64_t inode = 0;
    bool operator==(const FileState&) const = default;
  };
  static Result<FileState> look_at(const std::string& path);

  ModelHost(Loader loader, Clock& clock, const ModelHostOptions& options);
  Result<Model*> find(std::string_view name) const;
  bool is_stale(const Model& model) const;
  Result<std::shared_ptr<Engine>> load(Model& model, std::unique_lock<std::mutex>& lock);
  // Lets go of models until `bytes` more fit. Error: kOutOfMemory: they do not, because others are in use.
  Status make_room(const Model& wants, uint64_t bytes, std::unique_lock<std::mutex>& lock);
  uint64_t n_bytes_loaded() const;
  // False: somebody holds it still, and it stays.
  bool let_go(Model& model, std::unique_lock<std::mutex>& lock);

  Loader loader_;
  Clock& clock_;
  ModelHostOptions options_;
  std::function<void(const Engine&)> on_unload_;
  mutable std::mutex mutex_;  // guards what follows, and each Model
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Model>> models_;
};

}  // namespace ibid::serve
