// Models from a hub: names, listings, and downloads from a small server with the hub's API, which misbehaves.
#include "apps/models/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "apps/models/hub_download.h"
#include "apps/models/part_file.h"
#include "apps/terminal/progress.h"
#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/apps/python_server.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HubName, ValidHubNamesAreParsedAndInvalidNamesRefused) {
  const HubName name = *parse_hub_name("hf:Qwen/Qwen3-0.6B-GGUF:Q8_0");
  EXPECT_EQ(name.repository() + "|" + name.choice, "Qwen/Qwen3-0.6B-GGUF|Q8_0");
  EXPECT_EQ(parse_hub_name("HF:a/b")->choice, "");
  EXPECT_EQ(parse_hub_name("hf:a/b:folder/x.gguf")->choice, "folder/x.gguf");
  for (const char* wrong : {"hf:", "hf:a", "a/b", "hf:a/b/c", "hf:../b", "hf:a/..", "hf:a/b:", "hf:a/b:../x",
                            "hf:a/b:/x", "hf:a b/c", "hf:a/b?x=1", "hf:-a/b", "hf:a/.git", "hf:a/b#c", "hf:a/b%2e"}) {
    EXPECT_EQ(parse_hub_name(wrong).status().code(), ErrorCode::kInvalidArgument) << wrong;
  }
}

TEST(ByteProgress, ShowsBytesRateAndRemainingTime) {
  EXPECT_EQ(progress_line(0, 5'000'000, 98'000'000, 0.5), "5.00 MB of 98.0 MB");
  EXPECT_EQ(progress_line(0, 10'000'000, 30'000'000, 2), "10.0 MB of 30.0 MB · 5.00 MB/s · 4 s left");
  EXPECT_EQ(progress_line(20'000'000, 30'000'000, 30'000'000, 2), "30.0 MB of 30.0 MB · 5.00 MB/s");
  EXPECT_THAT(progress_line(0, 1'000'000, 1'000'000'000, 1), HasSubstr("16 min left"));
}

class Hub : public CommandLine {
 protected:
  Hub() {
    access_ = {server_.url(), "", dir_.file("models"), [this](double seconds) { waited_.push_back(seconds); }};
  }
  Result<std::string> pull(const std::string& name) { return pull_from_hub(access_, *parse_hub_name("hf:" + name)); }
  Status failure(const std::string& name) { return pull(name).status(); }
  std::string log() const { return read_whole_file(dir_.file("log")); }
  // Returns the files in the models directory, without notes.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(access_.directory)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && !name.ends_with(".pulled")) found.push_back(name);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  // Sets the revision of the changing repositories.
  void hub_revision(const std::string& revision) { dir_.write("log.revision", revision); }
  static constexpr size_t kBytes = 350'004;

  HubAccess access_;
  std::vector<double> waited_;
  PythonServer server_{{IBID_HUB_SERVER, dir_.file("log")}};
};

TEST_F(Hub, ModelIsFetchedCompletelyOrNotAtAll) {
  const Result<std::string> path = pull("o/good");
  ASSERT_TRUE(path.ok()) << path.status().message();
  EXPECT_EQ(*path, access_.directory + "/o--good/model-Q4_K_M.gguf") << "the most common of several quantisations";
  EXPECT_EQ(read_whole_file(*path).size(), kBytes);
  EXPECT_THAT(names(), ElementsAre("model-Q4_K_M.gguf"));
  const size_t n_requests = log().size();
  EXPECT_EQ(*pull("o/good"), *path);
  EXPECT_EQ(log().find("/cdn/", n_requests), std::string::npos) << "existing files are not fetched again";
  EXPECT_EQ(*pull("o/good:Q8_0"), access_.directory + "/o--good/model-Q8_0.gguf");
  EXPECT_EQ(*pull("o/good:model-Q8_0.gguf"), access_.directory + "/o--good/model-Q8_0.gguf");
  EXPECT_THAT(failure("o/good:Q5_0").message(), HasSubstr("has no 'Q5_0'. Available:\n  hf:o/good:model-Q4_K_M.gguf"));
  EXPECT_THAT(failure("o/many").message(), HasSubstr("several models; name one"));
  EXPECT_EQ(failure("o/nothing").code(), ErrorCode::kNotFound);
  EXPECT_EQ(failure("o/empty").code(), ErrorCode::kNotFound);
  std::filesystem::create_directories(access_.directory + "/o--many");
  dir_.write("models/o--many/a-Q8_0.gguf", "another");
  EXPECT_EQ(failure("o/many:Q8_0").code(), ErrorCode::kDuplicate);
  EXPECT_EQ(read_whole_file(dir_.file("models/o--many/a-Q8_0.gguf")), "another");
}

TEST_F(Hub, DirectoriesAndSplitFilesAreFetchedCompletely) {
  const Result<std::string> directory = pull("o/directory");
  ASSERT_TRUE(directory.ok()) << directory.status().message();
  EXPECT_EQ(*directory, access_.directory + "/o--directory");
  EXPECT_THAT(names(), ElementsAre("config.json", "model.safetensors", "tokenizer.json"));
  EXPECT_EQ(*pull("o/split"), access_.directory + "/o--split/m-00001-of-00002.gguf");
  EXPECT_TRUE(std::filesystem::exists(access_.directory + "/o--split/m-00002-of-00002.gguf"));
}

TEST_F(Hub, EqualNamesInTwoRepositoriesAreSeparateFiles) {
  const Result<std::string> one = pull("one/twin"), two = pull("two/twin");
  ASSERT_TRUE(one.ok() && two.ok()) << two.status().message();
  EXPECT_NE(*one, *two);
  EXPECT_EQ(read_whole_file(*one).size(), read_whole_file(*two).size());
  EXPECT_NE(read_whole_file(*one), read_whole_file(*two));
  EXPECT_NE(*pull("a/b--twin"), *pull("a--b/twin")) << "names that are equal when joined by dashes";
  const Result<std::string> inner = pull("one/folders:Q4_0"), other = pull("one/folders:Q8_0");
  ASSERT_TRUE(inner.ok() && other.ok()) << other.status().message();
  EXPECT_NE(read_whole_file(*inner), read_whole_file(*other)) << "the same file name in two folders";
}

TEST_F(Hub, ChangedRepositoryIsFetchedAgain) {
  const std::string path = *pull("o/changing"), before = read_whole_file(path);
  hub_revision("2");
  ASSERT_EQ(*pull("o/changing"), path);
  EXPECT_NE(read_whole_file(path), before);
  EXPECT_EQ(read_whole_file(path).size(), before.size());
  hub_revision("1");
  ASSERT_TRUE(pull("o/changing").ok());
  EXPECT_EQ(read_whole_file(path), before) << "back to revision 1";
  EXPECT_THAT(names(), ElementsAre("changing.gguf"));
}

TEST_F(Hub, ChangedDirectoryIsReplacedAsAWhole) {
  const std::string path = *pull("o/changingdir");
  const auto content = [&](const char* name) { return read_whole_file(path + "/" + name); };
  const std::string before = content("model-1.safetensors"), config = content("config.json");
  hub_revision("cut");  // the download of the second file of the new revision fails
  EXPECT_FALSE(pull("o/changingdir").ok());
  EXPECT_EQ(content("model-1.safetensors"), before) << "the old model is unchanged";
  EXPECT_EQ(content("config.json"), config);
  hub_revision("2");
  ASSERT_TRUE(pull("o/changingdir").ok());
  EXPECT_NE(content("model-1.safetensors"), before);
  EXPECT_NE(content("config.json"), config) << "small files have no digest, so the revision decides";
  EXPECT_THAT(names(), ElementsAre("config.json", "model-1.safetensors", "model-2.safetensors"));
}

TEST_F(Hub, LocallyChangedFileIsNotReplaced) {
  const std::string path = *pull("o/good:Q8_0");
  std::string changed = read_whole_file(path);
  const auto time = std::filesystem::last_write_time(path);
  changed[100] ^= 1;
  dir_.write("models/o--good/model-Q8_0.gguf", changed);
  std::filesystem::last_write_time(path, time);
  EXPECT_EQ(failure("o/good:Q8_0").code(), ErrorCode::kDuplicate) << "same size and time";
  EXPECT_EQ(read_whole_file(path), changed) << "a user's file must not be overwritten";
}

// Earlier versions stored .gguf files in the models directory itself, and wrote no notes.
TEST_F(Hub, FilesOfEarlierVersionsAreUsedIfTheirDigestMatches) {
  const std::string good = read_whole_file(*pull("o/good:Q8_0"));
  std::filesystem::remove_all(access_.directory);
  std::filesystem::create_directories(access_.directory + "/o--directory");
  const std::string flat = dir_.write("models/model-Q8_0.gguf", good);
  EXPECT_EQ(*pull("o/good:Q8_0"), flat);
  dir_.write("models/model-Q8_0.gguf", std::string(good.size(), 'x'));
  const std::string fetched = *pull("o/good:Q8_0");
  EXPECT_EQ(fetched, access_.directory + "/o--good/model-Q8_0.gguf");
  EXPECT_EQ(read_whole_file(fetched), good);
  EXPECT_EQ(read_whole_file(flat), std::string(good.size(), 'x'));
  dir_.write("models/o--directory/model.safetensors", good);
  dir_.write("models/o--directory/config.json", "{}");
  dir_.write("models/o--directory/tokenizer.json", "{}");
  const size_t n_requests = log().size();
  ASSERT_TRUE(pull("o/directory").ok());
  EXPECT_EQ(log().find("/cdn/directory/model.safetensors", n_requests), std::string::npos) << "its digest matches";
}

TEST_F(Hub, PullRecordOfAnotherFormatIsReportedAndIgnored) {
  const std::string path = *pull("o/changing"), note = access_.directory + "/o--changing/.changing.gguf.pulled";
  const Json json = *parse_json(read_whole_file(note), "note");
  EXPECT_EQ(json["repository"], "hf:o/changing");
  EXPECT_EQ(json["path"], "changing.gguf");
  EXPECT_EQ(json["format"], 1);
  for (const char* text : {"{\"format\": 2, \"sha256\": []}", "[]", "no json", "{\"format\": 1, \"repository\": 7}"}) {
    dir_.write("models/o--changing/.changing.gguf.pulled", text);
    hub_revision("1");
    EXPECT_TRUE(pull("o/changing").ok()) << "the digest matches without a note";
    hub_revision("2");
    testing::internal::CaptureStderr();
    EXPECT_EQ(failure("o/changing").code(), ErrorCode::kDuplicate) << text;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("has the format 2, this program reads 1") != std::string::npos, text[11] == '2') << said;
  }
}

TEST_F(Hub, PartialDownloadWithoutADigestIsNotResumed) {
  ASSERT_TRUE(pull("o/changingdir").ok());
  std::filesystem::remove(access_.directory + "/o--changingdir/config.json");
  const std::string content = "config.json\nhf:o/changingdir\n" + std::string(40, '1');
  const std::string part = part_path(access_.directory + "/o--changingdir", content);
  dir_.write("models/o--changingdir/" + std::filesystem::path(part).filename().string(), "x");
  ASSERT_TRUE(pull("o/changingdir").ok());
  EXPECT_EQ(read_whole_file(access_.directory + "/o--changingdir/config.json"), "1}") << "the hub's content";
}

TEST_F(Hub, InterruptedTransferIsResumed) {
  ASSERT_TRUE(pull("o/cut").ok());
  EXPECT_THAT(log(), HasSubstr("/cdn/cut/cut.gguf bytes=100000-"));
  EXPECT_THAT(log(), HasSubstr("/cdn/cut/cut.gguf bytes=300000-"));
  ASSERT_TRUE(pull("o/norange").ok()) << "a server without range support sends the whole file";
  EXPECT_EQ(read_whole_file(access_.directory + "/o--norange/norange.gguf").size(), kBytes);
}

TEST_F(Hub, PullAfterAKilledPullResumesThePartialDownload) {
  // The hub interrupts the transfer, and the process exits before a retry.
  access_.wait = [](double) { _exit(9); };
  const pid_t child = fork();
  if (child == 0) {
    (void)pull("o/cut");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 9);
  ASSERT_EQ(names().size(), 1u);
  EXPECT_THAT(names()[0], testing::StartsWith(".pull-"));
  access_.wait = [](double) {};
  ASSERT_TRUE(pull("o/cut").ok());
  EXPECT_THAT(names(), ElementsAre("cut.gguf"));
  EXPECT_EQ(log().find("/cdn/cut/cut.gguf - "), log().rfind("/cdn/cut/cut.gguf - ")) << "one request from offset 0";
}

TEST_F(Hub, WrongDigestsSizesAndPathsFromTheHubAreDetected) {
  EXPECT_EQ(failure("o/wrongsum").code(), ErrorCode::kMismatch);
  EXPECT_THAT(names(), testing::IsEmpty());
  EXPECT_EQ(failure("o/smaller").code(), ErrorCode::kMismatch);
  EXPECT_FALSE(std::filesystem::exists(access_.directory + "/o--smaller/smaller.gguf"));
  EXPECT_THAT(failure("o/larger").message(), HasSubstr("smaller than the"));
  EXPECT_FALSE(std::filesystem::exists(access_.directory + "/o--larger/larger.gguf"));
  EXPECT_THAT(failure("o/huge").message(), HasSubstr("has room for"));
  EXPECT_EQ(failure("o/evil").code(), ErrorCode::kNotFound) << "files with unsafe paths are skipped";
  EXPECT_EQ(failure("o/nonsense").code(), ErrorCode::kBadHeader);
  EXPECT_FALSE(pull("o/broken").ok());
  EXPECT_THAT(names(), testing::IsEmpty()) << "no file is left";
  EXPECT_FALSE(pull("o/downgrade").ok()) << "a redirect to another protocol is refused";
  EXPECT_FALSE(std::filesystem::exists(dir_.file("evil.gguf")));
}

TEST_F(Hub, ShardsAreFetchedInParallelAndConfigLast) {
  ASSERT_TRUE(pull("o/shards").ok()) << "the hub responds only to two concurrent requests";
  EXPECT_EQ(names().size(), 7u);
  const std::string requests = log();
  for (int i = 0; i < 6; ++i) {
    EXPECT_LT(requests.find("/cdn/shards/model-" + std::to_string(i)), requests.find("/cdn/shards/config.json"));
  }
  EXPECT_EQ(failure("o/shardgone").code(), ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(access_.directory + "/o--shardgone/config.json")) << "the model is incomplete";
}

TEST_F(Hub, OldUnusedPartialDownloadsAreRemoved) {
  std::filesystem::create_directories(access_.directory);
  const auto part = [&](char c, int days) {
    const std::string path = dir_.write("models/.pull-" + std::string(24, c), "123");
    std::filesystem::last_write_time(path,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * days));
    return path;
  };
  const std::string old = part('a', 8), young = part('b', 6), held = part('c', 8);
  const std::string other = dir_.write("models/.pull-of-a-person", "x");
  std::filesystem::last_write_time(other, std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 99));
  const auto live = *PartFile::open(held);
  std::filesystem::last_write_time(held, std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 8));
  EXPECT_EQ(remove_abandoned_parts(access_.directory), 3u);
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(young)) << "recent enough to be resumed";
  EXPECT_TRUE(std::filesystem::exists(held)) << "locked by a download";
  EXPECT_TRUE(std::filesystem::exists(other)) << "not a part file";
  EXPECT_EQ(PartFile::open(held).status().code(), ErrorCode::kBusy);
}

TEST_F(Hub, RedirectLoopsEndAndMissingFilesAreReported) {
  EXPECT_FALSE(pull("o/loop").ok());
  EXPECT_THAT(failure("o/gone").message(), HasSubstr("gone.gguf: not found"));
  EXPECT_THAT(names(), testing::IsEmpty());
  ASSERT_TRUE(pull("o/busyfile").ok());
  EXPECT_THAT(waited_, testing::Contains(3.0)) << "downloads of files also wait for a busy hub";
}

TEST_F(Hub, ControlCDuringAPullKeepsReceivedBytes) {
  const ScopedVariable endpoint("HF_ENDPOINT", access_.endpoint), models("IBID_MODELS", access_.directory);
  const std::string said = dir_.file("said");
  const pid_t child = fork();
  if (child == 0) {
    if (freopen(said.c_str(), "w", stderr) == nullptr) _exit(127);
    execl(IBID_PROGRAM, "ibid", "pull", "hf:o/slow", nullptr);
    _exit(127);
  }
  const auto has_come = [&] {
    const std::vector<std::string> found =
        std::filesystem::exists(access_.directory) ? names() : std::vector<std::string>();
    return found.size() == 1 && std::filesystem::file_size(access_.directory + "/o--slow/" + found[0]) == 100'000;
  };
  for (int i = 0; i < 3000 && !has_come(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(has_come());
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_THAT(read_whole_file(said),
              HasSubstr("interrupted; the partial download is kept: run the same command to resume"));
  EXPECT_TRUE(has_come());
}

TEST_F(Hub, FullDiskIsReportedAndThePullResumes) {
  const ScopedVariable endpoint("HF_ENDPOINT", access_.endpoint), models("IBID_MODELS", access_.directory);
  const Outcome full = run("pull hf:o/good:Q8_0", "", "trap '' XFSZ; ulimit -f 200; ");
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.err, HasSubstr("the partial download is kept"));
  EXPECT_EQ(run("pull hf:o/good:Q8_0").status, 0);
  EXPECT_THAT(names(), ElementsAre("model-Q8_0.gguf"));
  EXPECT_THAT(log(), testing::ContainsRegex("model-Q8_0.gguf bytes=[0-9]+-")) << "resumed";
}

TEST_F(Hub, TokenIsSentToTheHubOnly) {
  const Status without = failure("o/secret");
  EXPECT_EQ(without.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(without.message(), HasSubstr("HF_TOKEN"));
  access_.token = "wrong";
  EXPECT_THAT(failure("o/secret").message(), HasSubstr("does not let the token of HF_TOKEN read it"));
  access_.token = "letmein";
  ASSERT_TRUE(pull("o/secret").ok());
  EXPECT_THAT(log(), HasSubstr("127.0.0.1 /o/secret/resolve/0123456789abcdef0123456789abcdef01234567/secret.gguf - "
                               "Bearer letmein"));
  EXPECT_THAT(log(), HasSubstr("localhost /cdn/secret/secret.gguf - -\n")) << "no token for redirect targets";
}

TEST_F(Hub, BusyHubIsRetriedAfterItsDelay) {
  ASSERT_TRUE(pull("o/busy").ok());
  EXPECT_THAT(waited_, ElementsAre(7.0, 7.0));
  EXPECT_THAT(failure("o/toobusy").message(), HasSubstr("429"));
  EXPECT_THAT(waited_, ElementsAre(7.0, 7.0)) << "a delay of 2.5 hours is an error";
}

TEST_F(Hub, PullCommandFetchesAndValidatesItsArguments) {
  const ScopedVariable endpoint("HF_ENDPOINT", access_.endpoint), models("IBID_MODELS", dir_.file("here"));
  const Outcome pulled = run("pull hf:o/good:Q8_0");
  EXPECT_EQ(pulled.status, 0) << pulled.err;
  EXPECT_EQ(pulled.out, dir_.file("here") + "/o--good/model-Q8_0.gguf\n");
  EXPECT_THAT(run("pull hf:o").err, HasSubstr("expected hf:OWNER/NAME"));
  EXPECT_THAT(run("pull smolm2").err, HasSubstr("did you mean smollm2?"));
  EXPECT_THAT(run("pull --help").out, HasSubstr("not yet tested with ibid"));
  EXPECT_THAT(run("ask -m hf:o/good hello").err, HasSubstr("`ibid pull hf:OWNER/NAME`"));
  const ScopedVariable nobody("HF_ENDPOINT", "ftp://x");
  EXPECT_THAT(run("pull hf:o/good").err, HasSubstr("HF_ENDPOINT"));
  for (const char* wrong : {"http://example.org", "http://localhost.example.org", "https://", "https://a@b", "x",
                            "http://127.0.0.1@example.org", "http://127.0.0.2"}) {
    const ScopedVariable named("HF_ENDPOINT", wrong);
    EXPECT_EQ(hub_access({}).status().code(), ErrorCode::kInvalidArgument) << wrong;
  }
  for (const char* right : {"https://example.org/x/", "http://localhost", "http://[::1]:80/x", "http://127.0.0.1:1/"}) {
    const ScopedVariable named("HF_ENDPOINT", right);
    EXPECT_TRUE(hub_access({}).ok()) << right;
  }
  const ScopedVariable plain("HF_ENDPOINT", ""), token("HF_TOKEN", "abc\n");
  EXPECT_EQ(hub_access({})->token, "abc");
  const ScopedVariable header("HF_TOKEN", "abc\r\nX: y");
  EXPECT_EQ(hub_access({}).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ibid
