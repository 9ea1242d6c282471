// Hit rate of the store under both eviction policies and several budgets: tokens reused / prompt tokens.
// The pages are small and hold no keys and values, since eviction does not depend on their contents.
//   bench_store_workloads [branching | conversations | TRACE.jsonl]
// Two workloads of our own: `branching`, users who chat, edit, regenerate, abandon branches and now
// and then send a long document once, under shared and declared system prompts; and `conversations`, with the shape
// of the conversation trace of Mooncake (arXiv 2407.00079; FAST25-release/README.md: 12,031 requests in one hour,
// 12,035 tokens in, 343 out on average). Or the file of such a trace: lines with input_length, output_length
// and hash_ids, each of which represents 512 tokens.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "cache/store/lru_kv_cache_store.h"

namespace ibid {
namespace {

constexpr const char* kUser = "user";

struct Request {
  Tokens prompt;
  Tokens reply;
  size_t n_declared = 0;  // length of the system prompt that the request declares
};
// Generates the requests anew for every run, one by one, because a trace is larger than memory.
using Workload = std::function<void(const std::function<void(const Request&)>&)>;

struct Reuse {
  size_t asked = 0, reused = 0, refused = 0;
  double per_cent() const { return 100.0 * static_cast<double>(reused) / static_cast<double>(asked); }
};

// Performs the store's part of a turn: looks up the prompt, holds its pages, inserts prompt and reply.
void serve(KvPagePool& pool, LruKvCacheStore& store, const Request& request, bool declares, Reuse& reuse) {
  KvCacheEntry entry = store.find_longest_prefix(kUser, request.prompt).entry;
  reuse.asked += request.prompt.size();
  reuse.reused += entry.length();
  Tokens all = request.prompt;
  all.insert(all.end(), request.reply.begin(), request.reply.end());
  const size_t n_kept = entry.length() / kPagePositions;
  std::vector<KvPage> pages(entry.pages().begin(), entry.pages().begin() + static_cast<ptrdiff_t>(n_kept));
  Result<std::vector<KvPage>> fresh = pool.allocate(KvLayout::pages_for(all.size()) - n_kept);
  if (!fresh.ok()) {
    ++reuse.refused;
    return;
  }
  for (KvPage& page : *fresh) pages.push_back(std::move(page));
  KvCacheEntry computed(pool);
  CHECK(computed.adopt(std::move(pages), all).ok());
  if (declares && request.n_declared > 0) {
    KvCacheEntry system = computed.fork().value();
    system.slice_to_length(request.n_declared);
    CHECK(store.insert(kUser, system, {.extent = Extent::kFullPages, .retention = Retention::kPrefix}).ok());
  }
  CHECK(store.insert(kUser, computed).ok());
}

Reuse replay(const Workload& workload, size_t budget_tokens, Eviction eviction, bool declares) {
  const KvLayout layout = KvLayout::make(1, 1, 4, KvDType::kInt8);
  KvPagePool pool(layout, KvLayout::pages_for(budget_tokens) * layout.page_bytes());
  LruKvCacheStore store(pool, size_t{1} << 40, eviction);
  Reuse reuse;
  workload([&](const Request& request) { serve(pool, store, request, declares, reuse); });
  return reuse;
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(rng_() % n); }
  bool chance(double p) { return uniform() < p; }
  double uniform() { return static_cast<double>(rng_() >> 11) * 0x1p-53; }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  // Returns a log-normally distributed length with the mean m.
  size_t length(double m, double sigma) {
    const double normal = std::sqrt(-2 * std::log1p(-uniform())) * std::cos(6.283185307179586 * uniform());
    return static_cast<size_t>(std::max(1.0, m * std::exp(sigma * normal - sigma * sigma / 2)));
  }
  Tokens tokens(size_t n) {
    Tokens out(n);
    for (TokenId& id : out) id = static_cast<TokenId>(rng_() % 50000);
    return out;
  }

 private:
  std::mt19937_64 rng_;
};

void append(Tokens& to, const Tokens& more) { to.insert(to.end(), more.begin(), more.end()); }

// Workload of 24 users and 4 system prompts of 1,500 tokens. When a user's conversation ends, the next one begins; each
// document is sent once and never again.
void branching(const std::function<void(const Request&)>& serve_one) {
  Dice dice(1);
  std::array<Tokens, 4> systems;
  for (Tokens& system : systems) system = dice.tokens(1500);
  struct User {
    Tokens said;
    std::vector<size_t> turns;  // positions in the conversation at which its turns begin
  };
  std::array<User, 24> users;
  for (size_t i = 0; i < 6000; ++i) {
    // Eight users at a time are active; the set of active users changes gradually.
    User& user = users[(i / 60 + dice.below(8)) % users.size()];
    if (dice.chance(0.08)) {
      Request document{dice.tokens(dice.length(12000, 0.5)), dice.tokens(200)};
      serve_one(document);
      continue;
    }
    if (user.said.empty() || user.turns.size() > 25 || dice.chance(0.06)) {
      user.said = systems[dice.below(systems.size())];
      user.turns.clear();
    }
    const double what = dice.uniform();
    if (!user.turns.empty() && what < 0.12) {  // regenerate: request the same prompt again
      serve_one({Tokens(user.said.begin(), user.said.begin() + static_cast<ptrdiff_t>(user.turns.back())),
                 dice.tokens(dice.length(300, 0.8)), 1500});
      continue;
    }
    if (!user.turns.empty() && what < 0.22) {  // edit: continue at an earlier turn and abandon the later ones
      const size_t turn = dice.below(user.turns.size());
      user.said.resize(user.turns[turn]);
      user.turns.resize(turn);
    }
    append(user.said, dice.tokens(dice.length(120, 0.9)));
    Request request{user.said, dice.tokens(dice.length(300, 0.8)), 1500};
    user.turns.push_back(user.said.size());
    append(user.said, request.reply);
    serve_one(request);
  }
}

// Workload of conversations that begin at random, most of them with only one, long request. The statistics are those of
// the trace, where a request counts as a continuation of the request whose second last block it contains: 2.24
// conversations begin per second; after 1, 2, ... requests a share kGoesOn of them continues, half within two minutes;
// most messages are short, a quarter are documents.
constexpr std::array<double, 7> kGoesOn = {0.275, 0.405, 0.547, 0.603, 0.669, 0.716, 0.766};
void conversations(const std::function<void(const Request&)>& serve_one) {
  Dice dice(2);
  struct Next {
    double time_s;
    size_t conversation;
    bool operator<(const Next& other) const { return time_s > other.time_s; }
  };
  std::vector<Next> queue;
  struct Conversation {
    Tokens said;
    size_t n_requests = 0;
  };
  std::vector<Conversation> all;
  const Tokens system = dice.tokens(512);
  double begin_s = 0;
  for (size_t i = 0; i < 6000; ++i) {
    while (queue.empty() || begin_s < queue.front().time_s) {
      all.push_back({system});
      append(all.back().said, dice.tokens(dice.length(10850, 1.13)));
      queue.push_back({begin_s, all.size() - 1});
      std::push_heap(queue.begin(), queue.end());
      begin_s += dice.exponential(1 / 2.24);
    }
    std::pop_heap(queue.begin(), queue.end());
    const Next next = queue.back();
    queue.pop_back();
    Conversation& conversation = all[next.conversation];
    Request request{conversation.said, dice.tokens(dice.length(343, 0.8))};
    serve_one(request);
    if (dice.chance(kGoesOn[std::min(conversation.n_requests++, kGoesOn.size() - 1)])) {
      append(conversation.said, request.reply);
      append(conversation.said, dice.tokens(dice.chance(0.75) ? dice.length(30, 0.7) : dice.length(4900, 0.7)));
      queue.push_back({next.time_s + dice.exponential(212), next.conversation});
      std::push_heap(queue.begin(), queue.end());
    } else {
      conversation.said = Tokens();
    }
  }
}

// Returns the number after "key": in a line of JSON.
size_t number_of(const std::string& line, const std::string& key) {
  const size_t at = line.find("\"" + key + "\":");
  return at == std::string::npos ? 0 : std::strtoull(line.c_str() + at + key.size() + 3, nullptr, 10);
}

void trace(const std::string& path, const std::function<void(const Request&)>& serve_one) {
  std::ifstream file(path);
  uint64_t n = 0;
  for (std::string line; std::getline(file, line); ++n) {
    Request request;
    const char* at = std::strchr(line.c_str() + line.find("\"hash_ids\""), '[');
    while (at != nullptr && *at != ']') {
      char* end = nullptr;
      const auto hash = static_cast<TokenId>(std::strtoull(at + 1, &end, 10));
      // Append 512 token ids that no other hash has.
      for (TokenId i = 0; i < 512; ++i) request.prompt.push_back(hash * 512 + i);
      at = end;
    }
    request.prompt.resize(std::min(request.prompt.size(), number_of(line, "input_length")));
    // The trace has no answers, except for the parts that the next request repeats, so make up different tokens.
    request.reply = Dice(n).tokens(number_of(line, "output_length"));
    for (TokenId& id : request.reply) id = -1 - id;
    serve_one(request);
  }
}

void print_table(const char* name, const Workload& workload, const std::vector<size_t>& budgets, bool declares) {
  std::printf("%-14s %10s %10s %8s %8s%s\n", name, "budget", "asked", "lru", "reuse", declares ? " declared" : "");
  for (const size_t budget : budgets) {
    const Reuse lru = replay(workload, budget, Eviction::kLru, false);
    const Reuse reuse = replay(workload, budget, Eviction::kReuse, false);
    std::printf("%-14s %10zu %10zu %7.2f%% %7.2f%%", name, budget, lru.asked, lru.per_cent(), reuse.per_cent());
    if (declares) std::printf(" %7.2f%%", replay(workload, budget, Eviction::kReuse, true).per_cent());
    if (lru.refused + reuse.refused > 0) std::printf("  (%zu, %zu refused)", lru.refused, reuse.refused);
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  using namespace ibid;
  const std::string what = argc > 1 ? argv[1] : "";
  if (what.empty() || what == "branching") {
    print_table("branching", branching, {25000, 50000, 100000, 200000, 400000}, true);
  }
  const std::vector<size_t> budgets = {500000, 1000000, 2000000, 4000000, 8000000, 16000000};
  if (what.empty() || what == "conversations") {
    print_table("conversations", conversations, budgets, false);
  } else if (what != "branching") {
    print_table(
        "trace", [&](const auto& serve_one) { trace(what, serve_one); }, budgets, false);
  }
  return 0;
}
