#include "stretto/transport/hosts/mpi.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "stretto/base/machine/library_function.h"
#include "stretto/base/words.h"
#include "stretto/transport/hosts/piece_carrier.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

/// An MPI that there may be a module for.
struct KnownMpi {
  const char* name;
  const char* module;
  std::string_view begins;  // what MPI_Get_library_version() says, in front of the number
  const char* package;      // of Debian, with which the module is built
};
constexpr KnownMpi kOpenMpi{"Open MPI", "libstretto_openmpi.so", "Open MPI v", "libopenmpi-dev"};
constexpr KnownMpi kMpich{"MPICH", "libstretto_mpich.so", "MPICH Version:", "libmpich-dev"};

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// Null: no process manager has started this process that hands MPI its place.
const KnownMpi* known_mpi_of_manager() {
  if (is_set("OMPI_COMM_WORLD_SIZE")) return &kOpenMpi;
  if (is_set("PMI_RANK") && (is_set("PMI_FD") || is_set("PMI_PORT"))) return &kMpich;
  return is_set("PMIX_RANK") ? &kOpenMpi : nullptr;  // srun --mpi=pmix
}

/// Where a module is: beside the program, beside the library this code is part of, or in ../lib from there; else its
/// name, for the loader.
std::string path_of_module(const char* module) {
  Dl_info self{};
  const bool is_known = ::dladdr(reinterpret_cast<const void*>(&mpi_version), &self) != 0;
  for (const char* object : {"/proc/self/exe", is_known ? self.dli_fname : ""}) {
    std::error_code error;
    const fs::path file = fs::canonical(object, error);
    if (error) continue;
    for (const fs::path& folder : {file.parent_path(), file.parent_path().parent_path() / "lib"}) {
      if (fs::exists(folder / module, error)) return folder / module;
    }
  }
  return module;
}

struct MpiModule {
  const KnownMpi* mpi = nullptr;
  std::string version;  // mpi_version()
  internal::StartMpiWay* start = nullptr;
};

Result<MpiModule> load_mpi() {
  const KnownMpi* const mpi = known_mpi_of_manager();
  const auto none = [](const auto&... why) { return Error{Errc::unavailable, text(why...)}; };
  if (mpi == nullptr) {
    return none("no process manager of an MPI has started it: expected mpirun of Open MPI, mpiexec of MPICH, or srun ",
                "--mpi=pmix");
  }
  const std::string path = path_of_module(mpi->module);
  // Global, because Open MPI's own plugins look for its symbols.
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  internal::MpiLibraryVersion* version = nullptr;
  MpiModule out{.mpi = mpi};
  if (module == nullptr || !find_function(module, internal::kMpiLibraryVersion, version) ||
      !find_function(module, internal::kStartMpiWay, out.start)) {
    const char* const why = ::dlerror();
    return none("the process manager is ", mpi->name,
                "'s, and no module for that can be loaded: ", why != nullptr ? why : path,
                " (it is built where Debian's ", mpi->package, " is)");
  }
  const std::string_view says = version();
  const std::string_view line = says.substr(0, says.find('\n'));
  if (!says.starts_with(mpi->begins)) {
    return none("the process manager is ", mpi->name, "'s, and ", path,
                " finds another MPI on the loader's path: ", line);
  }
  std::string_view number = line.substr(mpi->begins.size());
  number.remove_prefix(std::min(number.find_first_not_of(" \t"), number.size()));
  out.version = text(number.substr(0, number.find_first_of(" ,\t")), " (", mpi->name, ")");
  return out;
}

const Result<MpiModule>& loaded_mpi() {
  static const Result<MpiModule> loaded = load_mpi();
  return loaded;
}

}  // namespace

std::string mpi_of_manager() {
  const KnownMpi* const mpi = known_mpi_of_manager();
  return mpi != nullptr ? mpi->name : "";
}

Result<std::string> mpi_version() {
  const auto& loaded = loaded_mpi();
  if (!loaded) return loaded.error();
  return loaded->version;
}

std::unique_ptr<Carrier> start_mpi(TcpCarrier& control, const MpiOptions& options) {
  const auto& loaded = loaded_mpi();
  if (!loaded) throw Failure(loaded.error());
  std::string error;
  std::unique_ptr<PieceWay> way(loaded->start(options.rank, options.ranks, &error));
  if (way == nullptr) {
    throw Failure({Errc::unavailable, text("no messages go by MPI ", loaded->version, ": rank ", options.rank, " of ",
                                           options.ranks, ": ", error, "; --between tcp does without it")});
  }
  return std::make_unique<PieceCarrier>("MPI", std::move(way), control, options.ranks, options.missed_after);
}

}  // namespace stretto
