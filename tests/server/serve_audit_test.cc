// `ibid serve --audit` and `ibid audit` on the cache directory that a server wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "base/file_ops.h"
#include "base/json_limits.h"
#include "cache/tier/page_name.h"
#include "runtime/engine/engine_state.h"
#include "templates/message.h"
#include "tests/cache/forged_records.h"
#include "tests/server/http/raw_client.h"
#include "tests/server/served_process.h"
#include "tests/server/talking_model.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using http::body_of;
using http::get_text;
using http::post_text;
using http::RawClient;
using testing::HasSubstr;

constexpr const char* kQuestion = "question ";

class ServeAudit : public testing::Test {
 protected:
  ServeAudit() : model_(dir_.file("talker.gguf")), cache_(dir_.file("cache")) { write_talking_model(model_); }

  static std::string ask(uint16_t port, const std::string& request) {
    RawClient one(port);
    one.send(request);
    return one.read_response();
  }
  // Asks a question about 400 tokens long; returns the answer.
  static std::string question(uint16_t port) {
    Json messages = Json::array();
    messages.push_back(make_message(Role::kUser, kQuestion + std::string(400, 'x')));
    const Json body = {{"messages", messages}, {"temperature", 0}, {"max_tokens", 20}};
    const std::string text = body_of(ask(port, post_text("/v1/chat/completions", json_to_string(body))));
    const Result<Json> json = parse_json(text, "answer");
    EXPECT_TRUE(json.ok() && json->contains("choices")) << text;
    return json.ok() && json->contains("choices") ? json_to_string((*json)["choices"][0]["message"]) : "";
  }
  // Waits until a metric has a value, which may take long on a machine that is never idle.
  static bool reaches(uint16_t port, const std::string& line) {
    constexpr int kPauseMs = 50;
    for (int ms = 0; ms < ServedProcess::kPatienceMs; ms += kPauseMs) {
      if (ask(port, get_text("/metrics")).find(line + "\n") != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(kPauseMs));
    }
    return false;
  }
  void fill() {
    ServedProcess served({model_, "--port", "0", "--cache-dir", cache_});
    answer_ = question(served.port());
    served.signal_it(SIGTERM);
    EXPECT_EQ(served.wait(), 0) << served.said();
  }
  std::map<std::string, std::string> records() const {
    std::map<std::string, std::string> all;
    for (const auto& file : std::filesystem::directory_iterator(cache_)) {
      const std::string name = file.path().filename();
      if (parse_record_file_name(name)) all[name] = read_whole_file(file.path());
    }
    return all;
  }
  // Forges the page with the positions 64 to 127; returns its file.
  std::string forge() const {
    const auto engine = Engine::load(model_, {.n_threads = 1});
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    for (const auto& [name, record] : records()) {
      if (parse_kv_record_header(std::as_bytes(std::span(record)))->first_position != 64) continue;
      const std::string forged = forged_page((*engine)->state().pool().layout(), record);
      const auto bytes = std::as_bytes(std::span(forged));
      EXPECT_TRUE(write_file_atomically(system_file_ops(), cache_ + "/" + name, bytes).ok());
      return name;
    }
    ADD_FAILURE() << "no such page";
    return "";
  }
  // Runs `ibid audit`; returns its exit status.
  int audit(const std::string& arguments) {
    const std::string command = std::string(IBID_PROGRAM) + " audit " + arguments + " --threads 1 >" +
                                dir_.file("out") + " 2>" + dir_.file("err");
    const int status = std::system(command.c_str());
    out_ = read_whole_file(dir_.file("out"));
    err_ = read_whole_file(dir_.file("err"));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string own() const { return cache_ + " -m " + model_; }

  TempDir dir_;
  const std::string model_, cache_;
  std::string answer_, out_, err_;
};

TEST_F(ServeAudit, CommandFindsNothingWrongInARightDirectory) {
  fill();
  const auto before = records();
  ASSERT_GE(before.size(), 6u);
  EXPECT_EQ(audit(own()), 0) << out_ << err_;
  const std::string n = std::to_string(before.size());
  EXPECT_EQ(out_, "audited " + n + " of " + n + " pages and 0 states: " + n + " right, 0 wrong\n");
  EXPECT_EQ(err_, "");
  EXPECT_EQ(audit(own() + " --share 30% --seed 5 --json"), 0) << err_;
  const Result<Json> json = parse_json(out_, "report");
  ASSERT_TRUE(json.ok()) << out_;
  EXPECT_EQ((*json)["pages"], before.size());
  EXPECT_EQ((*json)["audited"], (before.size() * 3 + 9) / 10);
  EXPECT_EQ((*json)["right"], (*json)["audited"]);
  EXPECT_EQ((*json)["wrong"], Json::array());
  EXPECT_EQ(records(), before);
}

TEST_F(ServeAudit, CommandNamesAForgedPageWithRightChecksums) {
  fill();
  const std::string forged = forge();
  const size_t n_before = records().size();
  EXPECT_EQ(audit(own() + " --json"), 1) << err_;
  const Result<Json> json = parse_json(out_, "report");
  ASSERT_TRUE(json.ok() && (*json)["wrong"].size() == 1) << out_;
  const Json& wrong = (*json)["wrong"][0];
  EXPECT_EQ(wrong["file"], forged);
  EXPECT_EQ(wrong["kind"], "page");
  EXPECT_EQ(wrong["first_position"], 64);
  EXPECT_EQ(wrong["n_rows"], 64);
  EXPECT_EQ(wrong["layer"], 0);
  EXPECT_EQ(wrong["writer"].get<std::string>().size(), 32u);
  EXPECT_EQ(wrong["n_followers"], n_before - 2);
  EXPECT_EQ(records().size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(cache_ + "/quarantine/" + forged));
  EXPECT_EQ(audit(own()), 0) << "what is left is right: " << out_;
}

TEST_F(ServeAudit, CommandPrintsALineForEachWrongRecord) {
  fill();
  const std::string forged = forge();
  EXPECT_EQ(audit(own()), 1) << err_;
  EXPECT_THAT(out_, HasSubstr("wrong: a page, positions 64 to 127, first in layer 0, written by "));
  EXPECT_THAT(out_, HasSubstr(forged));
  EXPECT_THAT(out_, HasSubstr(": 1 right, 1 wrong\n"));
}

TEST_F(ServeAudit, CommandReportsWhatItCannotAudit) {
  fill();
  EXPECT_EQ(audit(dir_.file("nowhere") + " -m " + model_), 2);
  EXPECT_THAT(err_, HasSubstr("no such directory"));
  EXPECT_EQ(audit(own() + " --share 200%"), 2);
  EXPECT_THAT(err_, HasSubstr("is not a share such as 1%"));
  EXPECT_EQ(audit(own() + " --kv f16"), 2);
  EXPECT_THAT(err_, HasSubstr("none of this model with these settings"));
  ServedProcess served({model_, "--port", "0", "--cache-dir", cache_});
  ASSERT_NE(served.port(), 0);
  EXPECT_EQ(audit(own()), 2) << out_;
  EXPECT_THAT(err_, HasSubstr("another process"));
}

TEST_F(ServeAudit, ServerRemovesAForgedPageThatAPromptHasRead) {
  fill();
  const std::string forged = forge();
  ServedProcess served({model_, "--port", "0", "--cache-dir", cache_, "--audit", "100%"});
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  question(port);
  EXPECT_TRUE(served.says("ibid: the audit removed a wrong record: a page, positions 64 to 127, first in layer 0"));
  EXPECT_TRUE(reaches(port, "ibid_audit_records_total{model=\"talker\",result=\"wrong\"} 1"))
      << ask(port, get_text("/metrics"));
  EXPECT_TRUE(std::filesystem::exists(cache_ + "/quarantine/" + forged));
  EXPECT_EQ(question(port), answer_) << "computed anew";
  EXPECT_THAT(ask(port, get_text("/metrics")), HasSubstr("ibid_audit_wrong_total{model=\"talker\",writer=\""));
}

TEST_F(ServeAudit, ServerFindsRightRecordsRight) {
  fill();
  ServedProcess served({model_, "--port", "0", "--cache-dir", cache_, "--audit", "100%"});
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  EXPECT_EQ(question(port), answer_);
  EXPECT_TRUE(reaches(port, "ibid_audit_waiting{model=\"talker\"} 0"));
  const std::string metrics = ask(port, get_text("/metrics"));
  EXPECT_THAT(metrics, HasSubstr("ibid_audit_records_total{model=\"talker\",result=\"wrong\"} 0\n"));
  EXPECT_THAT(metrics, testing::Not(HasSubstr("result=\"right\"} 0\n")));
}

}  // namespace
}  // namespace ibid
