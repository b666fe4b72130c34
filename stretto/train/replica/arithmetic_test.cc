#include "stretto/train/replica/arithmetic.h"

#include <gtest/gtest.h>

#include <vector>

namespace stretto {
namespace {

Arithmetic on(const std::string& host, const std::string& code, int threads = 1,
              const std::string& architecture = "x86_64") {
  return {.host = host, .architecture = architecture, .library = {.name = code, .threads = threads}};
}

TEST(Arithmetic, TravelsAsAText) {
  const Arithmetic mine = on("h 1", "AVX2 or AVX512", 12);
  const Arithmetic back = Arithmetic::decoded(mine.encoded());
  EXPECT_EQ(back.encoded(), mine.encoded());
  EXPECT_EQ(back.host, "h 1");
  EXPECT_EQ(back.library.threads, 12);
  EXPECT_EQ(back.without_host(), "x86_64\nAVX2 or AVX512\n12");
}

TEST(Arithmetic, OfAvx2IsThatOfAvx512) {
  EXPECT_EQ(torch_code("AVX2"), torch_code("AVX512"));
  EXPECT_NE(torch_code("AVX2"), torch_code("DEFAULT"));
  EXPECT_EQ(torch_code("SVE256"), "SVE256");
}

TEST(Arithmetic, OfHostsThatAreAlikePartsNothing) {
  const std::vector<Arithmetic> alike{on("h1", "AVX2 or AVX512"), on("h2", "AVX2 or AVX512")};
  EXPECT_EQ(why_replicas_may_part(alike), "");
  EXPECT_EQ(why_replicas_have_parted(alike), "");
  EXPECT_EQ(why_replicas_may_part({}), "");
}

TEST(Arithmetic, OfCodeThatDiffersNamesHostsAndWhatHelps) {
  const std::vector<Arithmetic> ranks{on("h1", "AVX2 or AVX512"), on("h2", "DEFAULT"), on("h1", "AVX2 or AVX512"),
                                      on("h3", "AVX2 or AVX512")};
  const std::string line =
      "hosts compute with code that rounds differently, so replicas may part: Torch's for AVX2 or AVX512 on h1 (ranks "
      "0 "
      "and 2), DEFAULT on h2 (rank 1), AVX2 or AVX512 on h3 (rank 3); ATEN_CPU_CAPABILITY=default on all x86 hosts "
      "makes "
      "it the same";
  EXPECT_EQ(why_replicas_may_part(ranks), line);
  EXPECT_EQ(why_replicas_have_parted(ranks), line);
}

TEST(Arithmetic, OfTwoArchitecturesHelpsNothing) {
  const std::vector<Arithmetic> ranks{on("h1", "AVX2 or AVX512"), on("h2", "DEFAULT", 1, "aarch64")};
  EXPECT_EQ(
      why_replicas_may_part(ranks),
      "processors of several architectures round differently, so replicas may part: x86_64 on h1 (rank 0), aarch64 "
      "on h2 (rank 1); expected hosts of one architecture");
}

TEST(Arithmetic, ThreadsAreNamedWhereReplicasHaveParted) {
  const std::vector<Arithmetic> ranks{on("h1", "DEFAULT", 1), on("h2", "DEFAULT", 4)};
  EXPECT_EQ(why_replicas_may_part(ranks), "");
  EXPECT_EQ(
      why_replicas_have_parted(ranks),
      "large sums are split among threads: 1 thread on h1 (rank 0), 4 threads on h2 (rank 1); OMP_NUM_THREADS makes "
      "them as many on all");
}

}  // namespace
}  // namespace stretto
