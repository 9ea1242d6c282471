// Writing session files: saved data is restored, unsupported data is named in the error, and writes are atomic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "templates/message.h"
#include "tests/runtime/resume_fixture.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

TEST_F(ChatResumeTest, SavingKeysAndValuesNeedsFingerprint) {
  ChatFixture f;
  ChatSession chat = f.session();
  EXPECT_EQ(chat.save("/nowhere/x", {.with_kv = true}).code(), ErrorCode::kUnsupported);
}

TEST_F(ChatResumeTest, SaveErrorNamesValueThatAFileCannotStore) {
  ASSERT_TRUE(files.make_directory("/t").ok());
  Process process(files);
  Json deep = Json::array();
  for (size_t i = 0; i < kMaxJsonDepth; ++i) {
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  const std::vector<std::tuple<Json, ErrorCode, const char*>> odd = {
      {std::nan(""), ErrorCode::kInvalidArgument, "messages[1].extra holds a number that is not finite"},
      {-INFINITY, ErrorCode::kInvalidArgument, "messages[1].extra holds a number that is not finite"},
      {Json::binary({1, 2, 255}), ErrorCode::kInvalidArgument,
       "messages[1].extra holds a value that JSON cannot represent"},
      {{{"a", {1, INFINITY}}}, ErrorCode::kInvalidArgument, "messages[1].extra.a[1] holds"},
      {deep, ErrorCode::kLimitExceeded, "messages[1].extra[0][0][0]"},
  };
  for (const auto& [value, code, words] : odd) {
    ChatSession chat = process.session();
    Json message = {{"role", "user"}, {"content", "x"}};
    ASSERT_TRUE(chat.state().append(message).ok());
    message["extra"] = value;
    ASSERT_TRUE(chat.state().append(std::move(message)).ok());
    const Status saved = chat.save("/t/talk");
    EXPECT_EQ(saved.code(), code) << words;
    EXPECT_THAT(saved.message(), testing::HasSubstr(words));
    EXPECT_LT(saved.message().size(), 300u);
    EXPECT_THAT(*files.list("/t"), testing::IsEmpty());
  }
  ChatSession alice = process.session({.cache_namespace = "\xff"});
  EXPECT_TRUE(alice.save("/t/talk").ok()) << "the namespace is not stored in the file";
}

TEST_F(ChatResumeTest, StorableValuesAreRestoredExactly) {
  Process process(files);
  Json deep = Json::array();
  for (size_t i = 0; i + 4 < kMaxJsonDepth; ++i) {  // in an array, in the message, in the messages, in the file
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  ChatSession chat = process.session();
  for (const Json& value : {Json(nullptr), Json(UINT64_MAX), Json(INT64_MIN), Json(-0.0), Json(1.0), Json(5e-324),
                            Json(1.7976931348623157e308), Json(0.1), Json(std::string("a\0b\n\x7f", 5)), deep}) {
    Json message = {{"role", "user"}, {"content", "x"}};
    message["extra"] = value;
    ASSERT_TRUE(chat.state().append(std::move(message)).ok());
  }
  ASSERT_TRUE(chat.save(kPath).ok()) << chat.save(kPath).to_string();
  const Result<ChatSession> loaded = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_TRUE(is_same_json(loaded->state().messages(), chat.state().messages()));
}

TEST_F(ChatResumeTest, ConcurrentSavesOfOneFileSucceed) {
  class Interrupted : public FaultyFileOps {
   public:
    explicit Interrupted(FileOps& below) : FaultyFileOps(below) {}
    Status rename(const std::string& from, const std::string& to) override {
      if (auto first = std::exchange(before_rename, nullptr)) first();
      return FaultyFileOps::rename(from, to);
    }
    std::function<void()> before_rename;
  };
  Interrupted interrupted(files);
  Process first(interrupted), second(files);
  ChatSession a = first.session({.system = "a"}), b = second.session({.system = "b"});
  interrupted.before_rename = [&] { EXPECT_TRUE(b.save(kPath).ok()); };
  EXPECT_TRUE(a.save(kPath).ok());
  EXPECT_EQ(ChatSession::load(first.engine, kPath)->state().messages(), a.state().messages());
  EXPECT_EQ(*files.list("/s"), std::vector<std::string>{"talk.ibid"});
}

TEST(SavedFileTest, FileIsAccessibleToOwnerOnly) {
  const TempDir dir;
  ChatFixture f;
  const std::string path = dir.file("talk.ibid");
  for (const char* name : {"talk.ibid", "talk.ibid.tmp"}) {
    dir.write(name, "");
    ASSERT_EQ(::chmod(dir.file(name).c_str(), 0666), 0);
  }
  ASSERT_TRUE(f.session().save(path).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST_F(ChatResumeTest, FailedSaveKeepsOldFile) {
  have_a_talk(false, true);
  const std::string old = *read_file(files, kPath, 100u << 20);
  FaultyFileOps faulty(files);
  Process process(faulty);
  ChatSession chat = *ChatSession::load(process.engine, kPath);
  must(chat.send("and", greedy()));
  const int before = faulty.calls();
  ASSERT_TRUE(chat.save("/s/other.ibid", {.with_kv = true}).ok());
  const int n_calls = faulty.calls() - before;
  ASSERT_GT(n_calls, 5);
  for (int i = 0; i < n_calls - 1; ++i) {  // the last call only makes the completed rename durable
    faulty.fail_call(i, ENOSPC);
    EXPECT_EQ(chat.save(kPath, {.with_kv = true}).code(), ErrorCode::kIo) << i;
    faulty.recover();
    EXPECT_EQ(*read_file(files, kPath, 100u << 20), old) << i;
  }
  EXPECT_TRUE(chat.save(kPath, {.with_kv = true}).ok());
  EXPECT_NE(*read_file(files, kPath, 100u << 20), old);
}

}  // namespace
}  // namespace ibid
