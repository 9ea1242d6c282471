// RandomConversation: random calls of sessions on one small engine, and after each of them the laws of
// random_conversation_laws.h. A seed is a whole conversation; failures carry it, and the calls that led there.
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

  // Makes calls until `n_calls` are made or a law is broken.
  void run(size_t n_calls);
  // Saves a session that another process is to go on with, goes on with it here, and ends this process. False: there
  // was no room for that.
  bool leave(const std::string& name, uint64_t seed, size_t n_turns);
  // And what came of it there.
  void come_back(const std::string& name);

  // What was called, a line each.
  const std::string& calls() const { return calls_; }
  struct Totals {
    size_t n_turns = 0;       // that were asked for
    size_t n_answered = 0;    // of them
    size_t n_read_again = 0;  // ids, in answered turns
  };
  const Totals& totals() const { return totals_; }

 private:
  struct Talk {
    ChatSession session;
    SessionOptions options;
    bool settled = false;   // the last thing that happened to it was a turn that succeeded
    bool odd = false;       // holds what a file cannot
  };
  enum class Interruption { kNone, kBefore, kInCallback, kInLayer, kFromAnotherThread, kFault };
  // One turn's circumstances: what interrupts it, and what was heard of it.
  struct Circumstances;

  Talk& talk() { return *talks_[current_]; }
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
  void expect_equal_futures(Talk& saved, ChatSession& loaded);
  // A failure of one of these codes is an answer, any other is a bug.
  void expect_allowed(const Status& status, Interruption interruption);
  // All of the sessions, or of a checkpoint, whose cold passes take longer, the current one.
  void expect_laws();
  Interruption draw_interruption(Circumstances& circumstances, TurnOptions& options);

  const uint64_t seed_;
  const RandomKind kind_;
  Dice dice_;
  const RandomSetting setting_;
  FileOps& files_;
  const std::string directory_;
  std::unique_ptr<RandomProcess> process_;
  std::vector<std::unique_ptr<Talk>> talks_;
  size_t current_ = 0;
  size_t n_saved_ = 0;
  Totals totals_;
  ColdModel* cold_ = nullptr;  // of a checkpoint
  std::string calls_;
  std::optional<SessionFace> left_;
};

}  // namespace ibid
