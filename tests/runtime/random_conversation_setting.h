// Setting of a random conversation: all that is drawn once from its seed, and the engine made from it. Dependencies on
// library interfaces that may change are in random_conversation_setting.cc: making an engine, loading a session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/file_ops.h"
#include "runtime/session/session_state.h"
#include "tests/support/fake_model.h"
#include "tests/support/fake_tokenizer.h"

namespace ibid {

// Draws from one generator, so that the seed determines the whole conversation.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {}
  uint64_t number() { return rng_(); }
  size_t below(size_t n) { return static_cast<size_t>(rng_() % n); }
  bool chance(size_t percent) { return below(100) < percent; }
  template <typename T>
  const T& pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  std::mt19937_64 rng_;
};

// Kinds of conversations.
enum class RandomKind {
  kAny,         // on a FakeModel and pools from too small to large
  kShortPool,   // on a FakeModel with recurrent layers, a window or both, in a pool too small for it
  kCheckpoint,  // as kShortPool, on a checkpoint of the reference data, with real kernels
};

struct RandomSetting {
  explicit RandomSetting(uint64_t seed, RandomKind kind = RandomKind::kAny);

  const char* chat_template = nullptr;
  bool wants_alternation = false;  // the template rejects roles that do not alternate
  FakeModel::Options model;        // some have recurrent layers, some a window, some both
  std::string checkpoint;          // directory of a model to use instead; empty: none
  KvDType kv_dtype = KvDType::kF32;
  size_t n_pages = 0, n_states = 0;  // capacity of the pool
  bool tier = false;
  // Bias of the model, added to its logits: towards control tokens, parts of characters, thinking.
  std::vector<float> inclination;
  SessionOptions session;

 private:
  void shorten_pool(Dice& dice);
  void take_checkpoint(Dice& dice);
};

// An action that runs once in a layer of a pass, on the thread that computes it. Thread-safe.
class Trap {
 public:
  void set(size_t n_layers, std::function<Status()> action);
  void clear() { set(0, {}); }
  Status passed();  // a layer begins

 private:
  std::mutex mutex_;
  size_t left_ = 0;
  std::function<Status()> action_;
};

// One process: an engine on a directory of a file system that later processes share.
class RandomProcess {
 public:
  RandomProcess(const RandomSetting& setting, FileOps& files, std::string directory);

  ChatSession new_session(SessionOptions options) const;
  Result<ChatSession> load(const std::string& name) const;
  Status save(const ChatSession& session, const std::string& name, bool with_kv) const;
  // Renders the messages with the generation prompt, from scratch.
  Result<std::string> render(const Json& messages, const SessionOptions& options) const;

  Trap& trap() { return *trap_; }
  Engine& engine() const { return *engine_; }
  const FakeTokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::unique_ptr<LanguageModel> load_model(const RandomSetting& setting) const;
  std::string path(const std::string& name) const { return directory_ + "/" + name + ".ibid"; }

  std::string directory_;
  std::shared_ptr<Trap> trap_ = std::make_shared<Trap>();
  std::shared_ptr<Engine> engine_;
  const FakeTokenizer* tokenizer_ = nullptr;
};

}  // namespace ibid
