#include "apps/terminal/line_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::ElementsAre;

TEST(LineHistory, EntriesAreReadBackWithNewlines) {
  const TempDir dir;
  const std::string path = dir.file("state/ibid/history");
  LineHistory first(path);
  first.add("one\ntwo \\n three\\");
  first.add("same");
  first.add("same");
  first.add("");
  EXPECT_THAT(LineHistory(path).entries(), ElementsAre("one\ntwo \\n three\\", "same"));
  struct stat file {};
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST(LineHistory, ConcurrentProcessesAppendWholeEntriesInOrder) {
  const TempDir dir;
  const std::string path = dir.file("history");
  constexpr int kProcesses = 4, kLines = 200;
  const std::string text(8000, 'x');  // with this text the file exceeds its limit and is rewritten
  for (int p = 0; p < kProcesses; ++p) {
    if (fork() == 0) {
      LineHistory history(path);
      for (int i = 0; i < kLines; ++i) history.add(std::to_string(p) + "." + std::to_string(i) + text);
      _exit(0);
    }
  }
  for (int p = 0; p < kProcesses; ++p) wait(nullptr);
  const LineHistory history(path);
  EXPECT_GT(history.entries().size(), 100u);
  std::vector<int> last(kProcesses, -1);
  for (const std::string& entry : history.entries()) {
    const int p = std::stoi(entry.substr(0, 1)), i = std::stoi(entry.substr(2));
    EXPECT_EQ(entry, std::to_string(p) + "." + std::to_string(i) + text) << "the entry is complete";
    EXPECT_GT(i, last[static_cast<size_t>(p)]) << "entries of a process are in order";
    last[static_cast<size_t>(p)] = i;
  }
  EXPECT_LE(std::filesystem::file_size(path), 2 * LineHistory::kMaxBytes + 8100);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(LineHistory, HistoryIsBoundedAndToleratesDamage) {
  const TempDir dir;
  const std::string path = dir.write("history", "good\ncut off in the mid");
  LineHistory history(path);
  EXPECT_THAT(history.entries(), ElementsAre("good"));
  history.add("next");
  EXPECT_THAT(LineHistory(path).entries(), ElementsAre("good", "cut off in the mid", "next"));
  for (int i = 0; i < 1500; ++i) history.add(std::to_string(i));
  EXPECT_EQ(history.entries().size(), LineHistory::kMaxEntries);
  EXPECT_EQ(LineHistory(path).entries().front(), "500");
  LineHistory nowhere("/dev/null/history");
  nowhere.add("kept in memory alone");
  EXPECT_THAT(nowhere.entries(), ElementsAre("kept in memory alone"));
}

TEST(LineHistory, PathComesFromTheEnvironment) {
  const ScopedVariable state("XDG_STATE_HOME", "/state");
  EXPECT_EQ(line_history_path(), "/state/ibid/history");
  const ScopedVariable chosen("IBID_HISTORY", "/elsewhere");
  EXPECT_EQ(line_history_path(), "/elsewhere");
  const ScopedVariable none("IBID_HISTORY", "");
  EXPECT_EQ(line_history_path(), "");
}

}  // namespace
}  // namespace ibid
