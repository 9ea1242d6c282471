// Sessions that clients name.
#include "apps/serve/service/session_directory.h"

#include <gtest/gtest.h>

#include "tests/serve/service/service_fixture.h"

namespace ibid::serve {
namespace {

struct NamedSessions : ServiceFixture {
  explicit NamedSessions(SessionDirectoryOptions options = {}) : sessions(*host, options) {}

  std::string create(const std::string& name = "a", const Json& messages = Json::array()) {
    Result<std::string> id = sessions.create(name, "", messages, Json::object(), WhenFull::kError);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : std::string();
  }
  AnswerRequest say(const std::string& id, const std::string& text) {
    AnswerRequest request = ask(Json::array({user(text)}));
    request.session = sessions.holder("a", id).value();
    return request;
  }

  SessionDirectory sessions;
};

TEST(SessionDirectoryTest, ASessionAnswersAsALoneOne) {
  NamedSessions f;
  ChatFixture lone;
  ChatSession session = lone.session();
  const std::string id = f.create();
  for (const char* text : {"one", "two", "three"}) {
    const Answer answer = f.answer(f.say(id, text));
    const Turn expected = must(session.send(text, greedy(12)));
    EXPECT_EQ(answer.content, expected.text);
    EXPECT_EQ(answer.usage.n_prefilled, expected.usage.n_prefilled);
  }
  EXPECT_EQ(f.sessions.messages("a", id).value(), session.messages());
  EXPECT_EQ(f.sessions.info("a", id)->n_ids, session.ids().size());
  EXPECT_EQ(f.sessions.info("a", id)->model, "fake");
}

TEST(SessionDirectoryTest, NobodyElseFindsIt) {
  NamedSessions f;
  const std::string id = f.create();
  EXPECT_EQ(f.sessions.info("b", id).status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(f.sessions.remove("b", id).code(), ErrorCode::kNotFound);
  EXPECT_TRUE(f.sessions.list("b").empty());
  EXPECT_EQ(f.sessions.list("a").size(), 1u);
  ASSERT_TRUE(f.sessions.remove("a", id).ok());
  EXPECT_EQ(f.sessions.messages("a", id).status().code(), ErrorCode::kNotFound);
}

TEST(SessionDirectoryTest, ItDoesOneThingAtATime) {
  NamedSessions f;
  const std::string id = f.create();
  const auto holder = f.sessions.holder("a", id).value();
  Conversation taken = holder->take().value();
  EXPECT_TRUE(f.sessions.info("a", id)->is_busy);
  EXPECT_EQ(f.start(f.say(id, "x"))->wait().code(), ErrorCode::kBusy);
  EXPECT_EQ(f.sessions.rewind("a", id, 0).code(), ErrorCode::kBusy);
  EXPECT_EQ(f.sessions.fork("a", id, 0).status().code(), ErrorCode::kBusy);
  holder->put(std::move(taken));
  f.answer(f.say(id, "x"));
}

TEST(SessionDirectoryTest, ForksRewindsAndEditsReadWhatIsNew) {
  NamedSessions f;
  const std::string id = f.create();
  for (const char* text : {"one", "two"}) f.answer(f.say(id, text));
  const Json before = f.sessions.messages("a", id).value();
  const std::string branch = f.sessions.fork("a", id, 2).value();
  EXPECT_EQ(f.sessions.messages("a", branch)->size(), 2u);
  EXPECT_EQ(f.answer(f.say(branch, "other")).usage.n_prefilled,
            f.chat.ids("other<|im_end|>\n<|im_start|>assistant\n").size());
  EXPECT_EQ(f.sessions.messages("a", id).value(), before);

  AnswerRequest edit = f.say(id, "edited");
  edit.n_kept = 2;
  EXPECT_EQ(f.answer(edit).usage.n_prefilled, f.chat.ids("edited<|im_end|>\n<|im_start|>assistant\n").size());
  EXPECT_EQ(f.sessions.messages("a", id)->at(2)["content"], "edited");
  AnswerRequest again = f.say(id, "");
  again.messages = Json::array();
  again.n_kept = 3;
  EXPECT_EQ(f.answer(again).usage.n_prefilled, 0u);

  EXPECT_EQ(f.sessions.rewind("a", id, 9).code(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(f.sessions.rewind("a", id, 2).ok());
  EXPECT_EQ(f.sessions.messages("a", id)->size(), 2u);
}

TEST(SessionDirectoryTest, ARequestThatFailsLeavesItAsItWas) {
  NamedSessions f;
  const std::string id = f.create();
  f.answer(f.say(id, "one"));
  const Json before = f.sessions.messages("a", id).value();
  for (const std::optional<size_t> n_kept : {std::optional<size_t>(), std::optional<size_t>(0), std::optional<size_t>(9)}) {
    AnswerRequest large = f.say(id, std::string(5000, 'x'));
    large.n_kept = n_kept;
    EXPECT_FALSE(f.start(large)->wait().ok());
    EXPECT_EQ(f.sessions.messages("a", id).value(), before);
  }
  std::stop_source gone;
  gone.request_stop();
  EXPECT_EQ(f.start(f.say(id, "two"), gone.get_token())->wait().code(), ErrorCode::kCancelled);
  AnswerRequest several = f.say(id, "two");
  several.n = 2;
  EXPECT_EQ(f.start(several)->wait().code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(f.service->wait_until_quiet(std::chrono::seconds(10)));
  EXPECT_EQ(f.sessions.messages("a", id).value(), before);
  EXPECT_FALSE(f.sessions.info("a", id)->is_busy);
}

TEST(SessionDirectoryTest, AsManyAsMayAndNoMore) {
  NamedSessions f({.max_sessions = 2});
  f.create();
  const std::string second = f.create();
  EXPECT_EQ(f.sessions.create("a", "", Json::array(), Json(), WhenFull::kError).status().code(),
            ErrorCode::kLimitExceeded);
  EXPECT_EQ(f.sessions.fork("a", second, 0).status().code(), ErrorCode::kLimitExceeded);
  f.create("b");
  ASSERT_TRUE(f.sessions.remove("a", second).ok());
  f.create();
  NamedSessions small({.budget_bytes = 10});
  EXPECT_EQ(small.sessions.create("a", "", Json::array(), Json(), WhenFull::kError).status().code(),
            ErrorCode::kLimitExceeded);
}

TEST(SessionDirectoryTest, FilesAreOfTheirNamespaceAndHaveSafeNames) {
  TempDir dir;
  NamedSessions f({.directory = dir.path()});
  const std::string id = f.create();
  f.answer(f.say(id, "one"));
  ASSERT_TRUE(f.sessions.save("a", id, "my_File-1").ok());
  for (const char* name : {"", "../x", "a/b", "a.b", ".", "\xc3\xa4", "nul\n"}) {
    EXPECT_EQ(f.sessions.save("a", id, name).code(), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(f.sessions.restore("a", "", name).status().code(), ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(f.sessions.save("a", id, std::string(65, 'x')).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.sessions.restore("b", "", "my_File-1").status().code(), ErrorCode::kNotFound);
  const std::string restored = f.sessions.restore("a", "", "my_File-1").value();
  EXPECT_EQ(f.sessions.messages("a", restored).value(), f.sessions.messages("a", id).value());
  EXPECT_EQ(f.answer(f.say(restored, "two")).content, f.answer(f.say(id, "two")).content);
  NamedSessions without;
  EXPECT_EQ(without.sessions.save("a", without.create(), "x").code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ibid::serve
