#include "apps/bench/serve_load.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "templates/message.h"

namespace ibid {

namespace {

// Words that most vocabularies encode as one token, together with the blank before them.
constexpr std::array<std::string_view, 64> kWords = {
    "time",  "year",   "people", "way",     "day",     "man",     "thing",    "woman",   "life",       "child",
    "world", "school", "state",  "family",  "student", "group",   "country",  "problem", "hand",       "part",
    "place", "case",   "week",   "company", "system",  "program", "question", "work",    "government", "number",
    "night", "point",  "home",   "water",   "room",    "mother",  "area",     "money",   "story",      "fact",
    "month", "lot",    "right",  "study",   "book",    "eye",     "job",      "word",    "business",   "issue",
    "side",  "kind",   "head",   "house",   "service", "friend",  "father",   "power",   "hour",       "game",
    "line",  "end",    "member", "law"};

// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

// Returns n words. Each value of `stream` gives another order of words.
std::string words(uint64_t seed, uint64_t stream, size_t n) {
  uint64_t state = seed;
  state = mixed(state) ^ stream * 0xD1342543DE82EF95u;
  std::string text;
  for (size_t i = 0; i < n; ++i) {
    text += i == 0 ? "" : i % 12 == 0 ? ". " : " ";
    text += kWords[mixed(state) % kWords.size()];
  }
  return text + ".";
}

constexpr uint64_t kSystemStream = 1;
uint64_t stream_of(size_t user, size_t round) { return 1000 + uint64_t{user} * 1'000'000 + round; }

class Load {
 public:
  Load(const ChatServer& server, const ServedModel& model, const LoadShape& shape,
       const std::function<void(const LoadSample&)>& on_sample)
      : server_(server), model_(model), shape_(shape), on_sample_(on_sample), begin_ns_(system_clock().steady_ns()) {}

  LoadResult run() {
    std::vector<std::thread> threads;
    for (size_t user = 0; user < shape_.users; ++user) threads.emplace_back([this, user] { run_user(user); });
    for (std::thread& thread : threads) thread.join();
    std::sort(result_.samples.begin(), result_.samples.end(), [](const LoadSample& a, const LoadSample& b) {
      return a.user != b.user ? a.user < b.user : a.round < b.round;
    });
    for (const LoadSample& sample : result_.samples) {
      result_.wall_seconds = std::max(result_.wall_seconds, sample.start_s + sample.total_ms / 1000);
    }
    return std::move(result_);
  }

 private:
  double now_s() const { return static_cast<double>(system_clock().steady_ns() - begin_ns_) / 1e9; }

  static void wait(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  void run_user(size_t user) {
    wait(static_cast<double>(user) * shape_.stagger_seconds);
    Json messages = first_messages(shape_, user);
    for (size_t round = 0; round < shape_.rounds; ++round) {
      if (round > 0) {
        wait(shape_.think_seconds);
        messages.push_back(make_message(Role::kUser, question_of(shape_, user, round)));
      }
      LoadSample sample{.user = user, .round = round, .start_s = now_s()};
      const std::string answer = ask(messages, sample);
      if (sample.failure.empty()) {
        messages.push_back(make_message(Role::kAssistant, answer));
      } else if (round > 0) {
        messages.erase(messages.size() - 1);
      }
      if (!sample.failure.empty() && round == 0) messages.push_back(make_message(Role::kAssistant, "I see."));
      const std::lock_guard lock(mutex_);
      on_sample_(sample);
      result_.samples.push_back(std::move(sample));
    }
  }

  // Asks the question and returns the text of the answer, for the history.
  std::string ask(const Json& messages, LoadSample& sample) {
    Json request = {{"messages", messages}, {"temperature", 0}, {"max_tokens", shape_.answer_tokens}};
    if (!model_.name.empty()) request["model"] = model_.name;
    // All answers must have the same length: ignore_eos, and a bias against the end token for servers that ignore it.
    request["ignore_eos"] = true;
    if (shape_.end_token) request["logit_bias"][std::to_string(*shape_.end_token)] = -100;
    Result<ChatReply> reply = server_.complete(std::move(request), {}, [](const ChatPart&) {});
    if (!reply.ok() || reply->n_parts == 0) {
      sample.failure = reply.ok() ? "an empty answer" : reply.status().message();
      sample.total_ms = (now_s() - sample.start_s) * 1000;
      return {};
    }
    sample.n_prompt = reply->n_prompt;
    sample.n_cached = reply->n_cached;
    sample.n_completion_tokens = reply->n_completion_tokens.value_or(reply->n_parts);
    if (!reply->n_completion_tokens) no_counts();
    sample.first_ms = reply->first_ms;
    sample.total_ms = reply->total_ms;
    if (sample.n_completion_tokens > 1) {
      sample.token_ms = (reply->last_ms - reply->first_ms) / static_cast<double>(sample.n_completion_tokens - 1);
    }
    return reply->content;  // leaves out the reasoning, because clients do not send it back
  }

  void no_counts() {
    const std::lock_guard lock(mutex_);
    result_.server_reports_counts = false;
  }

  const ChatServer& server_;
  const ServedModel& model_;
  const LoadShape& shape_;
  const std::function<void(const LoadSample&)>& on_sample_;
  const int64_t begin_ns_;
  std::mutex mutex_;
  LoadResult result_;  // guarded by mutex_
};

}  // namespace

Json first_messages(const LoadShape& shape, size_t user) {
  Json messages = Json::array();
  if (shape.system_words > 0) {
    messages.push_back(make_message(Role::kSystem, words(shape.seed, kSystemStream, shape.system_words)));
  }
  std::string text;
  if (shape.history_words > 0) text = words(shape.seed, stream_of(user, 0), shape.history_words) + "\n\n";
  messages.push_back(make_message(Role::kUser, text + question_of(shape, user, 0)));
  return messages;
}

std::string question_of(const LoadShape& shape, size_t user, size_t round) {
  return "Question " + std::to_string(round + 1) + ": " +
         words(shape.seed, stream_of(user, round + 1), shape.question_words);
}

LoadResult run_load(const ChatServer& server, const ServedModel& model, const LoadShape& shape,
                    const std::function<void(const LoadSample&)>& on_sample) {
  return Load(server, model, shape, on_sample).run();
}

double at_share(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace ibid
