#include "tests/runtime/random_conversation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <stop_token>
#include <thread>
#include <utility>

#include "cache/store/lru_kv_cache_store.h"
#include "ibid/turn_stream.h"
#include "runtime/prompt/transcript.h"

namespace ibid {

namespace {

// A turn by TurnStream, with its text emitted as events.
Result<Turn> pulled(ChatSession& session, const std::string& text, const TurnOptions& options,
                    const TurnCallback& on_event) {
  TurnStream stream(session, text, options);
  while (const std::optional<std::string> piece = stream.next()) {
    on_event({.kind = TurnEvent::Kind::kText, .text = *piece});
  }
  return stream.finish();
}

// One model for each checkpoint and type of keys and values.
ColdModel* cold_model(const RandomSetting& setting) {
  static std::map<std::pair<std::string, KvDType>, std::unique_ptr<ColdModel>> models;
  if (setting.checkpoint.empty()) return nullptr;
  std::unique_ptr<ColdModel>& model = models[{setting.checkpoint, setting.kv_dtype}];
  if (model == nullptr) {
    model = std::make_unique<ColdModel>(load_tiny_checkpoint(
        setting.checkpoint, {.kv_dtype = setting.kv_dtype, .n_threads = 1, .max_chunk = kTinyContext}));
  }
  return model.get();
}

void expect_sum(const Usage& sum, const Usage& before, const Usage& turn) {
  for (const auto& each : kUsageFields) {
    EXPECT_EQ(sum.*each.field, before.*each.field + turn.*each.field) << each.name;
  }
}

}  // namespace

struct RandomConversation::Circumstances {
  // With short pools some listeners are slow, so that the answer runs ahead of them, and during some turns another
  // session takes pages.
  Circumstances(Dice& dice, const RandomProcess& process, RandomKind kind) {
    if (kind == RandomKind::kAny) return;
    if (dice.chance(25)) pause = std::chrono::microseconds(100 << dice.below(5));
    if (dice.chance(85)) return;
    other = std::jthread([&process, seed = dice.number()](const std::stop_token& end) {
      Dice its_dice(seed);
      ChatSession session = process.new_session({.system = random_text(its_dice)});
      while (!end.stop_requested()) {
        const Result<Turn> turn = session.send(random_text(its_dice), {.max_tokens = 8});
        if (!turn.ok() && !session.reset().ok()) return;
      }
    });
  }

  std::stop_source stop;
  std::chrono::microseconds pause{0};
  size_t stops_at_event = 0;  // 0: never
  size_t n_events = 0;
  std::string heard;

  void hear(const TurnEvent& event) {
    if (event.kind == TurnEvent::Kind::kText) heard += event.text;
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    if (++n_events == stops_at_event) stop.request_stop();
  }

  std::jthread other;
};

RandomConversation::RandomConversation(uint64_t seed, FileOps& files, std::string directory, RandomKind kind)
    : seed_(seed),
      kind_(kind),
      dice_(seed * 2),
      setting_(seed, kind),
      files_(files),
      directory_(std::move(directory)),
      cold_(cold_model(setting_)) {
  process_ = std::make_unique<RandomProcess>(setting_, files_, directory_);
}

void RandomConversation::begin_talk() {
  SessionOptions options = setting_.session;
  if (dice_.chance(20)) options.cache_namespace = "another";
  talks_.push_back(std::make_unique<ChatBackend>(ChatBackend{process_->new_session(options), options}));
  current_ = talks_.size() - 1;
}

void RandomConversation::run(size_t n_calls) {
  begin_talk();
  for (size_t i = 0; i < n_calls && !testing::Test::HasFailure(); ++i) {
    call();
    expect_laws();
  }
}

void RandomConversation::expect_laws() {
  for (size_t i = 0; i < talks_.size(); ++i) {
    if (cold_ == nullptr || i == current_) expect_session_laws(talks_[i]->session, process_->tokenizer(), cold_);
  }
  expect_engine_laws(process_->engine());
}

void RandomConversation::call() {
  current_ = dice_.below(talks_.size());
  ChatSession& session = talk().session;
  const size_t n_messages = session.state().messages().size();
  switch (dice_.below(20)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: {
      const std::string text = random_text(dice_);
      if (dice_.chance(20))
        return turn("stream", [&](const TurnOptions& o, const TurnCallback& e) { return pulled(session, text, o, e); });
      return turn("send", [&](const TurnOptions& o, const TurnCallback& e) { return session.send(text, o, e); });
    }
    case 5: return turn("answer", [&](const TurnOptions& o, const TurnCallback& e) { return session.answer(o, e); });
    case 6:
    case 7:
      return turn("regenerate", [&](const TurnOptions& o, const TurnCallback& e) { return session.regenerate(o, e); });
    case 8: return edit();
    case 9: return rewind();
    case 10: return set_history();
    case 11: return append();
    case 12: return answers();
    case 13: {
      note("prefill");
      const SessionFace before(session);
      const Result<Usage> usage = session.prefill();
      if (!usage.ok()) expect_allowed(usage.status(), Interruption::kNone);
      EXPECT_EQ(SessionFace(session), before);
      return;
    }
    case 14: {
      const size_t message = dice_.below(n_messages + 1);
      note("pin " + std::to_string(message));
      EXPECT_EQ(session.pin(message).ok(), message < n_messages);
      return;
    }
    case 15: return change_talks();
    case 16: {
      const size_t answer = dice_.below(3);
      note("choose " + std::to_string(answer));
      static_cast<void>(session.choose(answer));
      return;
    }
    case 17: return forget();
    case 18: return save_and_load();
    default: return restart();
  }
}

// Adds or removes a session.
void RandomConversation::change_talks() {
  if (talks_.size() >= 3) {
    note("leave a session");
    talks_.erase(talks_.begin() + static_cast<std::ptrdiff_t>(current_));
    return;
  }
  if (dice_.chance(30)) {
    note("another session");
    return begin_talk();
  }
  note("fork");
  auto copy =
      std::make_unique<ChatBackend>(ChatBackend{*talk().session.fork(), talk().options, talk().settled, talk().odd});
  talks_.push_back(std::move(copy));
}

void RandomConversation::forget() {
  if (dice_.chance(50)) {
    note("clear the store");
    return process_->engine().state().store().clear("");
  }
  if (dice_.chance(50)) {
    note("set_system");
    const std::string text = random_text(dice_);
    EXPECT_TRUE(talk().session.set_system(text).ok());
  } else {
    note("reset");
    EXPECT_TRUE(talk().session.reset().ok());
  }
  talk().settled = talk().odd = false;
}

RandomConversation::Interruption RandomConversation::draw_interruption(Circumstances& now, TurnOptions& options) {
  options.stop = now.stop.get_token();
  const size_t when = 1 + dice_.below(12);
  switch (dice_.below(16)) {
    case 0: now.stop.request_stop(); return Interruption::kBefore;
    case 1:
    case 2: now.stops_at_event = when; return Interruption::kInCallback;
    case 3:
      process_->trap().set(when, [stop = now.stop]() mutable { return stop.request_stop(), Status(); });
      return Interruption::kInLayer;
    case 4:
      process_->trap().set(when, [stop = now.stop]() mutable {
        std::jthread([&] { stop.request_stop(); });
        return Status();
      });
      return Interruption::kFromAnotherThread;
    case 5:
      process_->trap().set(when, [] { return Status(ErrorCode::kNonFinite, "a fault was injected"); });
      return Interruption::kFault;
    default: return Interruption::kNone;
  }
}

void RandomConversation::expect_allowed(const Status& status, Interruption interruption) {
  note("  " + status.to_string());
  switch (status.code()) {
    case ErrorCode::kContextFull:
    case ErrorCode::kOutOfMemory: return;
    case ErrorCode::kInvalidArgument: return;  // no answer to regenerate, no such message ...
    case ErrorCode::kTemplateRaise: EXPECT_TRUE(setting_.wants_alternation) << status.to_string(); return;
    case ErrorCode::kCancelled: EXPECT_NE(interruption, Interruption::kNone); return;
    case ErrorCode::kNonFinite: EXPECT_EQ(interruption, Interruption::kFault); return;
    default: ADD_FAILURE() << status.to_string();
  }
}

void RandomConversation::count(const Turn& turn) {
  ++totals_.n_answered;
  totals_.n_reprefilled += turn.usage.n_reprefilled;
}

TurnOptions RandomConversation::turn_options() {
  TurnOptions options = random_turn_options(dice_, process_->tokenizer());
  // A checkpoint takes long to compute up to the end of the context.
  if (cold_ != nullptr && options.max_tokens == 0) options.max_tokens = 60 + dice_.below(100);
  return options;
}

void RandomConversation::turn(const std::string& what, const Ask& ask) {
  Circumstances now(dice_, *process_, kind_);
  TurnOptions options = turn_options();
  const Interruption interruption = draw_interruption(now, options);
  ++totals_.n_turns;
  note(what + ", interruption " + std::to_string(static_cast<int>(interruption)));
  const SessionFace before(talk().session);
  const Usage usage_before = talk().session.usage();
  const Result<Turn> turn = ask(options, [&](const TurnEvent& event) { now.hear(event); });
  process_->trap().clear();
  if (!turn.ok()) {
    expect_allowed(turn.status(), interruption);
    EXPECT_EQ(SessionFace(talk().session), before) << "a failed call changed something";
    return;
  }
  note("  \"" + turn->text + "\"");
  EXPECT_EQ(now.heard, turn->text);
  expect_sum(talk().session.usage(), usage_before, turn->usage);
  count(*turn);
  talk().settled = true;
  expect_turn_laws(talk().session, *turn, *process_, talk().options);
}

void RandomConversation::answers() {
  Circumstances now(dice_, *process_, kind_);
  TurnOptions options = turn_options();
  const Interruption interruption = draw_interruption(now, options);
  const size_t n = 1 + dice_.below(3);
  totals_.n_turns += n;
  note("send_for_answers " + std::to_string(n) + ", interruption " + std::to_string(static_cast<int>(interruption)));
  ChatSession& session = talk().session;
  const SessionFace before(session);
  const Usage usage_before = session.usage();
  std::vector<std::string> heard(n);
  const Result<std::vector<Turn>> turns =
      session.send_for_answers(random_text(dice_), n, options, [&](size_t answer, const TurnEvent& event) {
        if (event.kind == TurnEvent::Kind::kText) heard[answer] += event.text;
        now.hear(event);
      });
  process_->trap().clear();
  if (!turns.ok()) {
    expect_allowed(turns.status(), interruption);
    EXPECT_EQ(SessionFace(session), before) << "a failed call changed something";
    return;
  }
  talk().settled = true;
  ASSERT_EQ(turns->size(), n);
  expect_sum(session.usage(), usage_before, turns->front().usage);
  for (const Turn& each : *turns) count(each);
  for (const size_t answer : {size_t{0}, dice_.below(n), dice_.below(n)}) {
    ASSERT_TRUE(session.choose(answer).ok());
    EXPECT_EQ(heard[answer], (*turns)[answer].text);
    expect_turn_laws(session, (*turns)[answer], *process_, talk().options);
  }
}

void RandomConversation::edit() {
  ChatSession& session = talk().session;
  const size_t message = dice_.below(session.state().messages().size() + 1);
  const std::string text = random_text(dice_);
  turn("edit " + std::to_string(message),
       [&](const TurnOptions& o, const TurnCallback& e) { return session.edit(message, text, o, e); });
}

void RandomConversation::rewind() {
  ChatSession& session = talk().session;
  const SessionFace before(session);
  const size_t n = dice_.below(session.state().messages().size() + 2);
  note("rewind_to " + std::to_string(n));
  const Status status = session.rewind_to(n);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(SessionFace(session), before);
    return;
  }
  EXPECT_EQ(session.state().messages().size(), n);
  if (json_to_string(session.state().messages()) != before.messages) talk().settled = false;
}

// Drops, changes and adds messages.
void RandomConversation::set_history() {
  ChatSession& session = talk().session;
  Json history = Json::array();
  for (const Json& message : session.state().messages()) {
    if (dice_.chance(20)) continue;
    history.push_back(message);
    if (dice_.chance(10)) history.back()["content"] = random_text(dice_);
    if (dice_.chance(10)) history.push_back({{"role", "note"}, {"content", random_text(dice_)}});
  }
  if (dice_.chance(40)) history.push_back({{"role", "user"}, {"content", random_text(dice_)}});
  note("set_history of " + std::to_string(history.size()));
  ASSERT_TRUE(session.state().set_history(history).ok());
  EXPECT_EQ(session.state().messages(), history);
  talk().settled = false;
}

void RandomConversation::append() {
  Json message = {{"role", dice_.pick<std::string>({"user", "note", "user", "tool"})}, {"content", random_text(dice_)}};
  if (dice_.chance(5)) {
    Json deep = Json::array();
    for (int i = 0; i < 1100; ++i) {
      Json outer = Json::array();
      outer.push_back(std::move(deep));
      deep = std::move(outer);
    }
    message["extra"] = std::move(deep);
    talk().odd = true;
  }
  note("append " + message["role"].get<std::string>());
  const Status status = talk().session.state().append(std::move(message));
  talk().settled = false;
  if (!status.ok()) expect_allowed(status, Interruption::kNone);
}

void RandomConversation::expect_equal_futures(ChatBackend& saved, ChatSession& loaded) {
  const FakeTokenizer& tokenizer = process_->tokenizer();
  EXPECT_EQ(pieces_of(loaded.ids(), tokenizer), pieces_of(saved.session.ids(), tokenizer));
  EXPECT_EQ(loaded.state().transcript().bytes(), saved.session.state().transcript().bytes());
  ChatSession fork = *saved.session.fork();
  const std::string text = random_text(dice_);
  const TurnOptions options = random_turn_options(dice_, process_->tokenizer());
  const Result<Turn> here = fork.send(text, options), there = loaded.send(text, options);
  if (here.status().code() == ErrorCode::kOutOfMemory || there.status().code() == ErrorCode::kOutOfMemory) return;
  ASSERT_EQ(here.ok(), there.ok()) << here.status().to_string() << there.status().to_string();
  EXPECT_EQ(pieces_of(loaded.ids(), tokenizer), pieces_of(fork.ids(), tokenizer));
  EXPECT_EQ(loaded.state().messages(), fork.state().messages());
}

// Saves, and loads in another process on the same files.
void RandomConversation::save_and_load() {
  const std::string name = "talk" + std::to_string(n_saved_++);
  const bool with_kv = dice_.chance(50);
  note(std::string("save and load") + (with_kv ? " with keys and values" : ""));
  const Status saved = process_->save(talk().session, name, with_kv);
  if (talk().odd && saved.code() == ErrorCode::kLimitExceeded) return;
  ASSERT_TRUE(saved.ok()) << saved.to_string();
  const RandomProcess another(setting_, files_, directory_);
  Result<ChatSession> loaded = another.load(name);
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->state().messages(), talk().session.state().messages());
  expect_session_laws(*loaded, another.tokenizer(), cold_);
  if (talk().settled) expect_equal_futures(talk(), *loaded);
  expect_session_laws(*loaded, another.tokenizer(), cold_);
  expect_engine_laws(another.engine());
}

// Ends this process; the next one continues from the saved files.
void RandomConversation::restart() {
  const bool with_kv = dice_.chance(50);
  note(std::string("restart") + (with_kv ? " with keys and values" : ""));
  std::vector<std::string> names;
  for (const auto& each : talks_) {
    names.push_back("talk" + std::to_string(n_saved_++));
    const Status saved = process_->save(each->session, names.back(), with_kv);
    if (each->odd && saved.code() == ErrorCode::kLimitExceeded) {
      ASSERT_TRUE(each->session.reset().ok());
      each->odd = each->settled = false;
      ASSERT_TRUE(process_->save(each->session, names.back(), with_kv).ok());
      continue;
    }
    ASSERT_TRUE(saved.ok()) << saved.to_string();
  }
  std::vector<std::unique_ptr<ChatBackend>> before;
  std::vector<SessionFace> faces;
  std::vector<std::pair<SessionOptions, bool>> rest;
  for (const auto& each : talks_) {
    faces.emplace_back(each->session);
    rest.emplace_back(each->options, each->settled);
  }
  talks_.clear();
  process_ = nullptr;
  process_ = std::make_unique<RandomProcess>(setting_, files_, directory_);
  for (size_t i = 0; i < names.size(); ++i) {
    Result<ChatSession> loaded = process_->load(names[i]);
    ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
    const SessionFace face(*loaded);
    EXPECT_EQ(face.messages, faces[i].messages);
    if (rest[i].second) {
      EXPECT_EQ(face, faces[i]);
    }
    talks_.push_back(std::make_unique<ChatBackend>(ChatBackend{*std::move(loaded), rest[i].first, rest[i].second}));
  }
  current_ = 0;
}

bool RandomConversation::leave(const std::string& name, uint64_t seed, size_t n_turns) {
  talks_.resize(1);
  current_ = 0;
  if (talk().odd) static_cast<void>(talk().session.reset());
  // Runs a turn first, so that the transcript matches the messages.
  static_cast<void>(talk().session.send("Hello", {.sampler = {.temperature = 0}, .max_tokens = 3}));
  const Status saved = process_->save(talk().session, name, true);
  EXPECT_TRUE(saved.ok()) << saved.to_string();
  const bool had_room = go_on_with(talk().session, process_->tokenizer(), seed, n_turns);
  left_.emplace(talk().session);
  talks_.clear();
  process_ = nullptr;
  return had_room;
}

void RandomConversation::come_back(const std::string& name) {
  process_ = std::make_unique<RandomProcess>(setting_, files_, directory_);
  const Result<ChatSession> loaded = process_->load(name);
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  expect_session_laws(*loaded, process_->tokenizer());
  EXPECT_EQ(SessionFace(*loaded).messages, left_->messages);
}

}  // namespace ibid
