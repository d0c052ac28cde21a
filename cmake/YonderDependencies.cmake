# Third-party packages, all from Debian 12. tools/packages.txt names the Debian
# packages; docs/adr/ says why each is here.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(TBB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
# Of yonderd only: no library of ours needs them.
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(systemd REQUIRED IMPORTED_TARGET libsystemd)
find_path(YONDER_NUMA_INCLUDE numa.h REQUIRED)
find_library(YONDER_NUMA_LIBRARY numa REQUIRED)
# The verbs provider loads libibverbs and librdmacm with dlopen: headers only.
find_path(YONDER_VERBS_INCLUDE infiniband/verbs.h REQUIRED)
find_path(YONDER_RDMACM_INCLUDE rdma/rdma_cma.h REQUIRED)
if(YONDER_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
