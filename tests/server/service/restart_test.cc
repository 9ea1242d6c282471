#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file_ops.h"
#include "base/token_prefix.h"
#include "cache/tier/kv_record.h"
#include "model/model_fingerprint.h"
#include "runtime/session/session_file.h"
#include "server/service/conversation.h"
#include "server/store/conversation_store.h"
#include "server/store/database.h"
#include "tests/server/service/service_fixture.h"
#include "tests/support/paths.h"

namespace ibid::serve {
namespace {

EngineParts with_directory(const TempDir& dir) {
  EngineParts parts;
  parts.fingerprint = FingerprintBuilder().add("model", "one").finish();
  parts.cache_directory = dir.file("cache");
  parts.cache_directory_bytes = 64u << 20;
  return parts;
}

struct Life : ServiceFixture {
  Life(const TempDir& cache, std::vector<Tokens> replies, std::vector<std::string>* remarks = nullptr,
       uint64_t budget_bytes = 256u << 20, const char* chat_template = kChatMl)
      : ServiceFixture(options(cache, remarks, budget_bytes), chat_template, {}, 64u << 20, with_directory(cache)) {
    chat.say(std::move(replies));
  }
  static AdmissionOptions options(const TempDir& cache, std::vector<std::string>* remarks, uint64_t budget_bytes) {
    AdmissionOptions all = quiet();
    if (remarks != nullptr) {
      all.conversations.remark = [remarks](const std::string& line) { remarks->push_back(line); };
    }
    all.conversations.store = ConversationStore::open_or_in_memory(
        {.directory = cache.file("cache"), .budget_bytes = budget_bytes, .remark = all.conversations.remark});
    return all;
  }
  HistoryStats kept() const { return service->stats().conversations.kept; }
  // Sends n questions from number `first` on; `messages` is the history so far.
  void talk(Json& messages, size_t first, size_t n, const std::string& name_space = "a") {
    for (size_t i = first; i < first + n; ++i) {
      messages.push_back(user(question(i)));
      last = answer(ask(messages, name_space));
      messages.push_back(make_message(Role::kAssistant, last.content));
    }
  }
  static std::string question(size_t i) { return "question " + std::to_string(i) + std::string(100, 'x'); }
  // Number of tokens to prefill for a message after an answer: the template's text around it, and the token that ended
  // the answer.
  size_t n_new(const std::string& text) const { return chat.next_prompt(text).size() + 1; }

  Answer last;
};

// Returns the known histories in the store of an ended server, as pairs of name and text.
std::vector<std::pair<std::string, std::string>> kept_texts(const TempDir& cache) {
  const auto db = Database::open(cache.file("cache/conversations.sqlite3")).value();
  auto rows = db->ask("select name, items from kept where kind = 3").value();
  std::vector<std::pair<std::string, std::string>> texts;
  while (rows.next().value()) texts.emplace_back(rows.text(0), rows.text(1));
  return texts;
}

std::string file_of(const TempDir& cache, const std::string& name) {
  return cache.file("cache/conversations/" + name + ".chat");
}

// Converts the store into the files of an earlier version, returns one of them, and removes the store.
std::string turn_into_files(const TempDir& cache) {
  EXPECT_TRUE(system_file_ops().open_directory(cache.file("cache/conversations")).ok());
  std::string last;
  for (const auto& [name, text] : kept_texts(cache)) {
    const SavedSession saved = session_from_text(text, "a text").value();
    EXPECT_TRUE(write_session_file(system_file_ops(), file_of(cache, name), saved, nullptr, {}).ok());
    last = name;
  }
  for (const char* ending : {"", "-wal", "-shm"}) {
    std::filesystem::remove(cache.file("cache/conversations.sqlite3") + ending);
  }
  return last;
}

// Answers, some of which have tokens that no encoding of their text gives.
std::vector<Tokens> odd_replies() {
  const FakeTokenizer tokenizer;
  return {tokenizer.template_ids("Hello world"),
          tokenizer.sampled({"a", "b"}),
          tokenizer.sampled({"th", "e", "l", "o"}),
          joined({tokenizer.sampled({"a"}), {tokenizer.im_start}, tokenizer.sampled({"b", "c"})}),
          tokenizer.sampled({"H", "e", "l", "lo"}),
          tokenizer.template_ids("the"),
          tokenizer.sampled({"a", "b"})};
}

TEST(RestartTest, TurnAfterRestartPrefillsOnlyItsMessage) {
  const TempDir cache;
  Json messages = Json::array();
  {
    Life before(cache, odd_replies());
    before.talk(messages, 0, 5);
  }
  EXPECT_EQ(messages[3]["content"], "ab");
  EXPECT_EQ(messages[7]["content"], "abc") << "without the special token";
  std::vector<std::string> remarks;
  Life after(cache, odd_replies(), &remarks);
  EXPECT_EQ(after.kept().n_kept, 1u) << "each turn replaces the previous one";
  after.talk(messages, 5, 1);
  EXPECT_EQ(after.last.content, "the");
  EXPECT_EQ(after.last.usage.n_prefilled, after.n_new(Life::question(5)));
  EXPECT_GT(after.last.usage.n_from_disk, 500u);
  const ServiceStats stats = after.service->stats();
  EXPECT_EQ(stats.conversations.n_restored, 1u);
  EXPECT_EQ(stats.conversations.n_continued, 1u);
  EXPECT_THAT(remarks, testing::IsEmpty());
  after.talk(messages, 6, 1);
  EXPECT_EQ(after.last.usage.n_prefilled, after.n_new(Life::question(6)));
  EXPECT_EQ(after.service->stats().conversations.n_restored, 1u) << "it is in memory now";
}

TEST(RestartTest, RegeneratedAnswerAndEditedMessageReuseRowsAfterRestart) {
  const TempDir cache;
  Json messages = Json::array();
  {
    Life before(cache, odd_replies());
    before.talk(messages, 0, 4);
  }
  Life after(cache, odd_replies());
  Json again = messages;
  again.erase(7);
  const Usage regenerated = after.answer(ask(again)).usage;
  EXPECT_EQ(regenerated.n_prefilled, 1u) << "the last token, for its logits";
  Json changed = messages;
  changed.erase(7);
  changed[6] = user("else");
  EXPECT_EQ(after.answer(ask(changed)).usage.n_prefilled,
            after.chat.ids("else<|im_end|>\n<|im_start|>assistant\n").size());
  EXPECT_EQ(after.service->stats().conversations.n_forked, 2u);
  EXPECT_EQ(after.service->stats().conversations.n_restored, 1u);
}

TEST(RestartTest, ConversationsOfOtherNamespacesAndModelsAreNotFound) {
  const TempDir cache;
  Json messages = Json::array();
  {
    Life before(cache, odd_replies());
    before.talk(messages, 0, 2);
  }
  EXPECT_EQ(read_whole_file(cache.file("cache/conversations.sqlite3")).find("\"a\":"), std::string::npos);
  messages.push_back(user("x"));
  {
    Life after(cache, odd_replies());
    const Usage usage = after.answer(ask(messages, "b")).usage;
    EXPECT_EQ(usage.n_cached, 0u);
    EXPECT_EQ(after.service->stats().conversations.n_restored, 0u);
  }
  EngineParts other = with_directory(cache);
  other.fingerprint = FingerprintBuilder().add("model", "two").finish();
  ServiceFixture after(Life::options(cache, nullptr, 256u << 20), kChatMl, {}, 64u << 20, std::move(other));
  after.answer(ask(messages));
  EXPECT_EQ(after.service->stats().conversations.n_restored, 0u);
  EXPECT_TRUE(after.service->stats().conversations.kept.n_refused == 0)
      << "it is valid, but belongs to another conversation";
}

TEST(RestartTest, ForgottenNamespaceIsRemovedFromDisk) {
  const TempDir cache;
  Json messages = Json::array(), others = Json::array();
  {
    Life before(cache, odd_replies());
    before.talk(messages, 0, 2);
    before.talk(others, 0, 1, "b");
    before.service->forget_namespace("a");
    EXPECT_EQ(before.kept().n_kept, 1u);
  }
  Life after(cache, odd_replies());
  after.talk(messages, 2, 1);
  EXPECT_EQ(after.service->stats().conversations.n_restored, 0u);
  after.talk(others, 1, 1, "b");
  EXPECT_EQ(after.service->stats().conversations.n_restored, 1u);
}

TEST(RestartTest, StoreEvictsTheOldestOfTheLargestNamespace) {
  const TempDir cache;
  Json rare = Json::array();
  constexpr uint64_t kBudget = 20'000;
  {
    Life before(cache, odd_replies(), nullptr, kBudget);
    before.talk(rare, 0, 1, "rare");
    for (size_t i = 0; i < 40; ++i) {
      Json one = Json::array({make_message(Role::kSystem, "number " + std::to_string(i))});
      before.talk(one, i, 1, "busy");
    }
  }
  {
    Life between(cache, odd_replies(), nullptr, kBudget);
    EXPECT_LE(between.kept().n_bytes, kBudget);
    EXPECT_GT(between.kept().n_bytes, kBudget / 2);
  }
  Life after(cache, odd_replies(), nullptr, kBudget / 2);
  after.talk(rare, 1, 1, "rare");
  EXPECT_EQ(after.service->stats().conversations.n_restored, 1u);
  EXPECT_LE(after.kept().n_bytes, kBudget / 2);
}

// Notes that do not belong to the stored conversation.
const std::function<void(SavedSession&)> kBadNotes[] = {[](SavedSession& saved) { saved.notes.erase("seen"); },
                                                        [](SavedSession& saved) {
                                                          saved.notes["seen"] = Json::array({1, 2, 3});
                                                        },
                                                        [](SavedSession& saved) { saved.notes["seen"].erase(0); },
                                                        [](SavedSession& saved) { saved.notes["cut"] = true; },
                                                        [](SavedSession& saved) { saved.notes["namespace"] = 5; }};

// With any content of the store, the answer is that of a server with an empty store.
TEST(RestartTest, DamagedEntryOfTheStoreIsAMissAndLogged) {
  const TempDir cache;
  Json messages = Json::array();
  {
    Life before(cache, odd_replies());
    before.talk(messages, 0, 3);
  }
  const auto [name, sound] = kept_texts(cache).at(0);
  const auto put = [&](const std::string& text) {
    Life life(cache, odd_replies());
    ConversationStore& store = life.service->store();
    const SavedSession saved = session_from_text(sound, "sound").value();
    const auto places = Conversation::places_of(saved, store.hash_seed());
    ASSERT_TRUE(store
                    .put_history(holder_of("a"), {.name = name,
                                                  .numerics_version = kNumericsVersion,
                                                  .text = text,
                                                  .hashes = places->hashes,
                                                  .first = places->first})
                    .ok());
  };
  std::vector<std::string> cases = {"", "{", sound.substr(0, sound.size() - 1), "[]"};
  for (const auto& change : kBadNotes) {
    SavedSession saved = session_from_text(sound, "sound").value();
    change(saved);
    cases.push_back(session_to_text(session_to_json(saved)).value());
  }
  for (const std::string& text : cases) {
    put(text);
    std::vector<std::string> remarks;
    Life after(cache, odd_replies(), &remarks);
    Json now = messages;
    after.talk(now, 3, 1);
    EXPECT_EQ(after.last.content, "abc");
    EXPECT_EQ(after.service->stats().conversations.n_restored, 0u);
    EXPECT_EQ(after.kept().n_refused, 1u);
    ASSERT_EQ(remarks.size(), 1u) << text.substr(0, 80);
    EXPECT_THAT(remarks[0], testing::HasSubstr("is not used"));
    after.service->forget_namespace("a");
  }
  // If the tokens are invalid, the text is used, and the answers after it are encoded.
  SavedSession saved = session_from_text(sound, "sound").value();
  saved.replies[1].ids[0] = 1'000'000;
  put(session_to_text(session_to_json(saved)).value());
  Life after(cache, odd_replies());
  Json now = messages;
  after.talk(now, 3, 1);
  EXPECT_EQ(after.last.content, "abc");
}

TEST(RestartTest, FilesOfAnEarlierVersionAreImported) {
  const TempDir cache;
  Json messages = Json::array(), others = Json::array();
  {
    Life before(cache, odd_replies());
    before.talk(messages, 0, 5);
    before.talk(others, 0, 1, "b");
  }
  turn_into_files(cache);
  std::vector<std::string> remarks;
  {
    Life after(cache, odd_replies(), &remarks);
    after.talk(messages, 5, 1);
    EXPECT_EQ(after.last.usage.n_prefilled, after.n_new(Life::question(5)));
    EXPECT_EQ(after.service->stats().conversations.n_restored, 1u);
    EXPECT_EQ(after.kept().n_kept, 2u);
  }
  EXPECT_THAT(remarks, testing::IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(cache.file("cache/conversations"))) << "once";
  Life again(cache, odd_replies(), &remarks);
  again.talk(others, 1, 1, "b");
  EXPECT_EQ(again.service->stats().conversations.n_restored, 1u);
  EXPECT_THAT(remarks, testing::IsEmpty());
}

// With any content of the file, the answer is that of a server without the file.
TEST(RestartTest, HostileFileIsAMissAndLogged) {
  const TempDir sound_cache;
  Json messages = Json::array();
  {
    Life before(sound_cache, odd_replies());
    before.talk(messages, 0, 3);
  }
  const std::string name = turn_into_files(sound_cache);
  const std::string sound = read_whole_file(file_of(sound_cache, name));
  std::string flipped = sound;
  flipped[sound.size() / 2] ^= 1;
  std::vector<std::string> cases = {
      "", "IBIDCHAT", sound.substr(0, 60), sound.substr(0, sound.size() - 1), flipped, std::string(1000, '\xFF')};
  for (const auto& change : kBadNotes) {
    const std::string path = sound_cache.file("changed");
    SavedSession saved = read_saved_session(system_file_ops(), file_of(sound_cache, name)).value();
    change(saved);
    EXPECT_TRUE(write_session_file(system_file_ops(), path, saved, nullptr, {}).ok());
    cases.push_back(read_whole_file(path));
  }
  for (const std::string& bytes : cases) {
    const TempDir cache;
    for (const char* folder : {"cache", "cache/conversations"}) {
      ASSERT_TRUE(system_file_ops().open_directory(cache.file(folder)).ok());
    }
    ASSERT_TRUE(write_file_atomically(system_file_ops(), file_of(cache, name), std::as_bytes(std::span(bytes))).ok());
    std::vector<std::string> remarks;
    Life after(cache, odd_replies(), &remarks);
    Json now = messages;
    after.talk(now, 3, 1);
    EXPECT_EQ(after.last.content, "abc");
    EXPECT_EQ(after.service->stats().conversations.n_restored, 0u);
    EXPECT_EQ(after.kept().n_refused, 1u);
    ASSERT_EQ(remarks.size(), 1u);
    EXPECT_THAT(remarks[0], testing::HasSubstr(name));
    EXPECT_FALSE(system_file_ops().info(file_of(cache, name)).ok()) << "it was removed";
  }
}

TEST(RestartTest, FilesLeftByACrashAreRemovedAndForeignFilesStay) {
  const TempDir cache;
  Json messages = Json::array();
  {
    Life before(cache, odd_replies());
    before.talk(messages, 0, 1);
  }
  const std::string name = turn_into_files(cache);
  cache.write("cache/conversations/" + name + ".chat.1a2b.tmp", "half");
  cache.write("cache/conversations/mine.chat", "a file of somebody");
  std::string twin = name;
  twin[0] = twin[0] == '0' ? '1' : '0';
  std::filesystem::create_symlink("/etc/passwd", file_of(cache, twin));
  std::vector<std::string> remarks;
  Life after(cache, odd_replies(), &remarks);
  after.talk(messages, 1, 1);
  EXPECT_EQ(after.service->stats().conversations.n_restored, 1u);
  EXPECT_FALSE(std::filesystem::exists(file_of(cache, name) + ".1a2b.tmp"));
  EXPECT_FALSE(std::filesystem::exists(file_of(cache, name)));
  EXPECT_TRUE(std::filesystem::exists(cache.file("cache/conversations/mine.chat")));
  EXPECT_TRUE(std::filesystem::is_symlink(file_of(cache, twin)));
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_THAT(remarks[0], testing::HasSubstr(twin));
}

// With a disk that hangs, requests are answered, and conversations are continued from memory.
TEST(RestartTest, AnswersDoNotWaitForTheWritingThread) {
  const TempDir cache;
  Life life(cache, odd_replies());
  std::promise<void> disk;
  life.service->write_behind([wait = disk.get_future().share()] { wait.wait(); });
  Json messages = Json::array();
  life.talk(messages, 0, 3);
  EXPECT_EQ(life.service->stats().conversations.n_continued, 2u);
  EXPECT_EQ(life.service->stats().conversations.n_waiting, 3u);
  EXPECT_EQ(life.kept().n_kept, 0u);
  disk.set_value();
  life.service->forget_namespace("nobody");  // returns after all writes
  EXPECT_EQ(life.kept().n_kept, 1u);
}

TEST(RestartTest, WriteErrorsFailNoAnswer) {
  const TempDir cache;
  std::filesystem::create_directories(cache.file("cache/conversations.sqlite3"));
  std::filesystem::permissions(cache.file("cache"), std::filesystem::perms::owner_all);
  std::vector<std::string> remarks;
  Life life(cache, odd_replies(), &remarks);
  Json messages = Json::array();
  life.talk(messages, 0, 2);
  EXPECT_EQ(life.last.content, "ab");
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_THAT(remarks[0], testing::HasSubstr("conversations are not stored on disk"));
}

// Without the store, the history is rendered and encoded. The longest prefix that was prefilled before comes from the
// cache directory.
Usage second_life(const std::vector<Tokens>& replies, size_t& n_common) {
  const TempDir cache;
  Json messages = Json::array();
  Tokens ids;
  {
    Life before(cache, replies);
    for (size_t i = 0; i + 1 < replies.size(); ++i) {
      messages.push_back(user("question " + std::to_string(i) + std::string(100, 'x')));
      const Answer answer = before.answer(ask(messages));
      messages.push_back(make_message(Role::kAssistant, answer.content));
    }
    messages.push_back(user("and on"));
    before.chat.model->take_fed();
    const Answer last = before.answer(ask(messages));
    EXPECT_GT(last.usage.n_cached, 0u);
    for (const FakeModel::Fed& fed : before.chat.model->fed()) {
      ids.resize(fed.position);
      ids.insert(ids.end(), fed.tokens.begin(), fed.tokens.end());
    }
    EXPECT_TRUE(before.service->wait_until_quiet(std::chrono::seconds(10)));
  }
  std::filesystem::remove(cache.file("cache/conversations.sqlite3"));
  Life after(cache, replies);
  const Tokens encoded =
      after.chat.engine->state().tokenizer().encode(after.render_prompt(ask(messages)), TextOrigin::kTemplate);
  n_common = common_prefix_length(encoded, ids);
  return after.answer(ask(messages)).usage;
}

TEST(RestartTest, HistoryThatEncodesToTheSampledTokensIsNotPrefilledAgain) {
  const FakeTokenizer tokenizer;
  size_t n_common = 0;
  const Usage usage = second_life({tokenizer.template_ids("Hello world"), tokenizer.template_ids("the"), {}}, n_common);
  EXPECT_GE(n_common, usage.n_prompt);
  EXPECT_EQ(usage.n_prefilled, 1u) << "the last token, for its logits";
  EXPECT_EQ(usage.n_from_disk, usage.n_prompt - 1);
}

TEST(RestartTest, HistoryThatEncodesDifferentlyIsPrefilledFromTheDifference) {
  const FakeTokenizer tokenizer;
  size_t n_common = 0;
  const Usage usage = second_life({tokenizer.template_ids("Hello world"), tokenizer.sampled({"a", "b"}), {}}, n_common);
  EXPECT_LT(n_common, usage.n_prompt);
  EXPECT_EQ(usage.n_cached, n_common);
}

TEST(RestartTest, ConversationsOfAnEarlierNumericsVersionAreLoggedAndPrefilledAgain) {
  const TempDir cache;
  ASSERT_TRUE(system_file_ops().open_directory(cache.file("cache")).ok());
  ASSERT_TRUE(system_file_ops().open_directory(cache.file("cache/conversations")).ok());
  const std::string name = "/3851ad46632529fcefe70b707b86ee35.chat";
  std::filesystem::copy(golden_dir() + "/kept" + name, cache.file("cache/conversations") + name);
  for (const uint64_t n_kept : {2, 3}) {  // also those that are answered in this loop
    std::vector<std::string> remarks;
    Life life(cache, odd_replies(), &remarks);
    Json messages = Json::array();
    life.talk(messages, n_kept, 1);
    EXPECT_THAT(remarks,
                testing::Contains(testing::HasSubstr(
                    "1 conversation was stored by an earlier version of the numerics, this program has version " +
                    std::to_string(kNumericsVersion))));
    life.service->forget_namespace("nobody");  // returns after all writes
    EXPECT_EQ(life.kept().n_kept, n_kept) << "it is evicted in its turn";
  }
}

}  // namespace
}  // namespace ibid::serve
