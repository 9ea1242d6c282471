// The costs and the file format of docs/sessions.md, line by line and byte by byte. Its examples are in tests/api.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "base/sha256.h"
#include "model/model_fingerprint.h"
#include "runtime/session/session_file.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

// A conversation on a fake model, in a working directory of its own.
struct SessionDocumentTest : testing::Test {
  SessionDocumentTest() : fixture(kChatMl, {}, 64u << 20, parts()), engine(fixture.engine), chat(fixture.session()) {
    before = std::filesystem::current_path().string();
    std::filesystem::current_path(directory.path());
  }
  ~SessionDocumentTest() override { std::filesystem::current_path(before); }

  static EngineParts parts() {
    EngineParts parts;
    parts.fingerprint = FingerprintBuilder().add("model", "of the document").finish();
    return parts;
  }
  // Answers of two tokens, so that the cost of every turn is known.
  void say_little() { fixture.say(std::vector<Tokens>(40, fixture.tokenizer->sampled({"the", "ing"}))); }

  TempDir directory;
  std::string before;
  ChatFixture fixture;
  std::shared_ptr<Engine> engine;
  ChatSession chat;
};

// The table of costs, line by line.
TEST_F(SessionDocumentTest, CostsAreAsInTheDocumentation) {
  say_little();
  const size_t page_bytes = engine->state().pool().layout().page_bytes();
  Turn turn = must(chat.send("first", greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, fixture.prompt("first").size());
  turn = must(chat.send("second", greedy()));
  const size_t n_second = turn.usage.n_prefilled;
  EXPECT_EQ(n_second, 1 + fixture.next_prompt("second").size()) << "with the token that ended the answer";
  EXPECT_LE(turn.work.kv_bytes_copied, page_bytes);
  turn = must(chat.regenerate(greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, 0u);
  EXPECT_LE(turn.work.kv_bytes_copied, page_bytes);
  turn = must(chat.edit(2, "secret", greedy()));
  EXPECT_LT(turn.usage.n_prefilled, n_second) << "from the first token that differs";
  EXPECT_LE(turn.work.kv_bytes_copied, page_bytes);

  fixture.model->take_fed();
  const size_t pages = engine->state().pool().bytes_in_use();
  ASSERT_TRUE(chat.rewind_to(2).ok());
  Result<ChatSession> fork = chat.fork();
  ASSERT_TRUE(fork.ok() && chat.state().append({{"role", "user"}, {"content", "third"}}).ok());
  ASSERT_TRUE(chat.state().set_history(fork->state().messages()).ok());
  EXPECT_EQ(fixture.model->take_fed(), Tokens());
  EXPECT_EQ(engine->state().pool().bytes_in_use(), pages) << "nothing was copied";
  turn = must(fork->send("third", greedy()));
  EXPECT_EQ(turn.usage.n_prefilled,
            1 + fixture.next_prompt("third").size() - fixture.ids("\n<|im_start|>user\n").size() - 1)
      << "the edited message begins in the same way, and the store has that";
  EXPECT_LE(turn.work.kv_bytes_copied, page_bytes);

  const Result<std::vector<Turn>> answers = chat.send_for_answers("fourth", 3, greedy());
  ASSERT_TRUE(answers.ok());
  EXPECT_GT(answers->at(0).usage.n_prefilled, 0u);
  EXPECT_EQ(answers->at(1).usage.n_prefilled, 0u);
  EXPECT_EQ(answers->at(2).usage.n_prefilled, 0u);
  fixture.model->take_fed();
  ASSERT_TRUE(chat.choose(2).ok() && chat.reset().ok() && chat.set_system("be").ok());
  EXPECT_EQ(fixture.model->take_fed(), Tokens());
}

// --- the file format of docs/sessions.md

std::string text_of_document(const char* name) {
  return read_whole_file((std::filesystem::path(golden_dir()).parent_path().parent_path() / name).string());
}

TEST_F(SessionDocumentTest, FileFormatIsAsInTheDocumentation) {
  say_little();
  must(chat.send(std::string(200, 'x'), greedy()));
  ASSERT_TRUE(chat.save("talk.ibid", {.with_kv = true}).ok());
  const std::string file = read_whole_file("talk.ibid");
  const auto number = [&](size_t offset, size_t n_bytes) {
    uint64_t value = 0;
    std::memcpy(&value, file.data() + offset, n_bytes);
    return value;
  };
  EXPECT_EQ(file.substr(0, 8), "IBIDCHAT");
  EXPECT_EQ(number(8, 4), 1u);
  EXPECT_EQ(number(12, 4), 0x01020304u);
  const std::string json = file.substr(56, number(16, 8));
  Sha256 hash;
  hash.update(json);
  EXPECT_EQ(std::memcmp(file.data() + 24, hash.finish().data(), 32), 0);
  const Result<Json> parsed = parse_json(json, "talk.ibid", {});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(file.substr(56 + json.size(), 8), "ibidKV\r\n");

  const std::string document = text_of_document("docs/sessions.md");
  const size_t begin = document.find("```json\n");
  ASSERT_NE(begin, std::string::npos);
  const size_t end = document.find("```", begin + 3);
  Result<Json> shown = parse_json(document.substr(begin + 8, end - begin - 8), "docs/sessions.md", {});
  ASSERT_TRUE(shown.ok()) << shown.status().message();
  (*shown)["numerics_version"] = kNumericsVersion;  // of the program, not of the example
  const Result<SavedSession> session = session_from_json(*shown);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(session_to_json(*session), *shown) << "exactly the documented fields";
  for (const auto& [name, value] : parsed->items()) EXPECT_TRUE(shown->contains(name)) << name;

  struct stat attributes {};
  ASSERT_EQ(stat("talk.ibid", &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777u, 0600u);
}

}  // namespace
}  // namespace ibid
