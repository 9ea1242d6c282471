// RandomConversation: random calls of sessions on one small engine, with the checks of random_conversation_laws.h after
// each. The seed determines the conversation; failures report it, and the calls that led there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/random_conversation_laws.h"
#include "tests/runtime/random_conversation_setting.h"
#include "tests/runtime/random_turns.h"

namespace ibid {

class RandomConversation {
 public:
  // Keeps its files below `directory`.
  RandomConversation(uint64_t seed, FileOps& files, std::string directory, RandomKind kind = RandomKind::kAny);

  // Makes calls until `n_calls` are made or a check fails.
  void run(size_t n_calls);
  // Saves a session for another process, continues it here, and ends this process. Returns false if there was no memory
  // for that.
  bool leave(const std::string& name, uint64_t seed, size_t n_turns);
  // Compares with the result of the other process.
  void come_back(const std::string& name);

  // The calls, one per line.
  const std::string& calls() const { return calls_; }
  struct Totals {
    size_t n_turns = 0;        // all turns
    size_t n_answered = 0;     // successful ones
    size_t n_reprefilled = 0;  // tokens, in successful turns
  };
  const Totals& totals() const { return totals_; }

 private:
  struct ChatBackend {
    ChatSession session;
    SessionOptions options;
    bool settled = false;  // its last call was a successful turn
    bool odd = false;      // has values that a file cannot store
  };
  enum class Interruption { kNone, kBefore, kInCallback, kInLayer, kFromAnotherThread, kFault };
  // Interruptions of one turn, and the events received.
  struct Circumstances;

  ChatBackend& talk() { return *talks_[current_]; }
  void begin_talk();
  void call();
  void note(const std::string& what) { calls_ += "  " + what + "\n"; }

  using Ask = std::function<Result<Turn>(const TurnOptions&, const TurnCallback&)>;
  void count(const Turn& turn);
  TurnOptions turn_options();
  void turn(const std::string& what, const Ask& ask);
  void answers();
  void edit();
  void rewind();
  void set_history();
  void append();
  void change_talks();
  void forget();
  void restart();
  void save_and_load();
  void expect_equal_futures(ChatBackend& saved, ChatSession& loaded);
  // Fails unless the code is one that the interruption allows.
  void expect_allowed(const Status& status, Interruption interruption);
  // Checks all sessions; on a checkpoint, whose cold passes take longer, only the current one.
  void expect_laws();
  Interruption draw_interruption(Circumstances& circumstances, TurnOptions& options);

  const uint64_t seed_;
  const RandomKind kind_;
  Dice dice_;
  const RandomSetting setting_;
  FileOps& files_;
  const std::string directory_;
  std::unique_ptr<RandomProcess> process_;
  std::vector<std::unique_ptr<ChatBackend>> talks_;
  size_t current_ = 0;
  size_t n_saved_ = 0;
  Totals totals_;
  ColdModel* cold_ = nullptr;  // for a checkpoint
  std::string calls_;
  std::optional<SessionFace> left_;
};

}  // namespace ibid
