#include "apps/terminal/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

namespace ibid {
namespace {

// A terminal of its own, in which the process may set modes.
class TerminalModesTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(openpty(&far_end_, &terminal_, nullptr, nullptr, nullptr), 0); }
  ~TerminalModesTest() override {
    close(terminal_);
    close(far_end_);
  }

  // Whoever started the tests may have had it ignored, as a shell does for what it runs in the background.
  static void heed_interrupts() { signal(SIGINT, SIG_DFL); }

  int terminal_ = -1, far_end_ = -1;
};
using TerminalModesDeathTest = TerminalModesTest;

TEST_F(TerminalModesDeathTest, ACtrlCThatComesAfterTheAnswerIsIgnoredOnceInEachMode) {
  EXPECT_EXIT(
      {
        heed_interrupts();
        TerminalModes modes(terminal_, terminal_);
        modes.set(TerminalMode::kAnswering);
        raise(SIGINT);
        modes.set(TerminalMode::kTyping);
        modes.set(TerminalMode::kAnswering);
        raise(SIGINT);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(TerminalModesDeathTest, TheSecondOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        heed_interrupts();
        TerminalModes modes(terminal_, terminal_);
        modes.set(TerminalMode::kAnswering);
        raise(SIGINT);
        raise(SIGINT);
        _exit(7);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST_F(TerminalModesDeathTest, OneFromOutsideWhileALineIsTypedEndsTheProcess) {
  EXPECT_EXIT(
      {
        heed_interrupts();
        TerminalModes modes(terminal_, terminal_);
        modes.set(TerminalMode::kTyping);
        raise(SIGINT);
        _exit(7);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace ibid
