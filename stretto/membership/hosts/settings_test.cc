#include "stretto/membership/hosts/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() { clear(); }
  ~SettingsTest() override { clear(); }
  static void clear() {
    unsetenv("STRETTO_LIVENESS");
    unsetenv("STRETTO_BETWEEN");
    for (const char* of_a_manager : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"}) unsetenv(of_a_manager);
  }
  static std::string error_of(std::optional<Duration> liveness, const std::string& between = "") {
    try {
      (void)between_hosts(liveness, between);
      return {};
    } catch (const UsageError& error) {
      return error.what();
    }
  }
};

TEST_F(SettingsTest, OptionsCountBeforeTheEnvironment) {
  EXPECT_EQ(between_hosts({}, "").settings(), (Settings{{"between", "tcp"}, {"liveness", "10s"}}));
  setenv("STRETTO_LIVENESS", "2500ms", 1);
  setenv("STRETTO_BETWEEN", "tcp", 1);
  EXPECT_EQ(between_hosts({}, "").liveness, 2500ms);
  setenv("STRETTO_BETWEEN", "ucx", 1);
  EXPECT_EQ(between_hosts(1s, "tcp").settings(), (Settings{{"between", "tcp"}, {"liveness", "1s"}}));
}

TEST_F(SettingsTest, WhatIsNoneIsRefusedUnderTheNameItWasGiven) {
  EXPECT_EQ(error_of(999ms), "liveness 0.999 s: expected at least 1s");
  EXPECT_EQ(error_of(0s), "liveness 0 s: expected at least 1s");
  EXPECT_EQ(error_of(-2s), "liveness -2 s: expected at least 1s");
  EXPECT_EQ(error_of({}, "gloo"), "between gloo: expected tcp, ucx or auto, or mpi under mpirun, mpiexec or srun");
  setenv("STRETTO_BETWEEN", "mpi", 1);
  EXPECT_EQ(
      error_of({}),
      "STRETTO_BETWEEN=mpi: expected ranks that mpirun of Open MPI, mpiexec of MPICH or srun --mpi=pmix has started; "
      "elsewhere tcp");
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(between_hosts({}, "").carrier, "mpi");
  setenv("STRETTO_LIVENESS", "900ms", 1);
  EXPECT_EQ(error_of({}, "tcp"), "STRETTO_LIVENESS=900ms: expected at least 1s");
  setenv("STRETTO_LIVENESS", "", 1);  // as not set
  EXPECT_EQ(between_hosts({}, "tcp").liveness, 10s);
}

}  // namespace
}  // namespace stretto
