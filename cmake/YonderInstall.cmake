# What `cmake --install` puts into a prefix: the static libraries with their
# headers, the programs of apps/, a CMake package with targets yonder::base …
# and yonder::yonder for all of them, and yonder.pc for everybody else.
#
# Nothing here names a folder of ours: libraries come from YONDER_LIBRARIES,
# programs from apps/, and what the libraries need from how they were linked.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# yonder_dependency(TARGET FIND … [PKG_CONFIG module] [LINK flag])
#
# How the user of an installed static library finds something it was linked
# with: FIND is CMake code for the package file, PKG_CONFIG a module for
# Requires.private, LINK a flag for Libs.private. Header-only libraries that only
# our .cc files include need neither of the latter two.
function(yonder_dependency TARGET)
  cmake_parse_arguments(ARG "" "PKG_CONFIG;LINK" "FIND" ${ARGN})
  list(JOIN ARG_FIND "\n" find)
  set_property(GLOBAL APPEND PROPERTY YONDER_DEPENDENCIES ${TARGET})
  set_property(GLOBAL PROPERTY YONDER_FIND_${TARGET} "${find}")
  set_property(GLOBAL PROPERTY YONDER_PKG_CONFIG_${TARGET} "${ARG_PKG_CONFIG}")
  set_property(GLOBAL PROPERTY YONDER_LINK_${TARGET} "${ARG_LINK}")
endfunction()

yonder_dependency(Threads::Threads FIND "find_dependency(Threads)" LINK -pthread)
yonder_dependency(fmt::fmt FIND "find_dependency(fmt)" PKG_CONFIG fmt)
yonder_dependency(spdlog::spdlog FIND "find_dependency(spdlog)" PKG_CONFIG spdlog)
yonder_dependency(nlohmann_json::nlohmann_json FIND "find_dependency(nlohmann_json)")
yonder_dependency(CLI11::CLI11 FIND "find_dependency(CLI11)")
yonder_dependency(OpenSSL::SSL FIND "find_dependency(OpenSSL)" PKG_CONFIG openssl)
yonder_dependency(OpenSSL::Crypto FIND "find_dependency(OpenSSL)" PKG_CONFIG openssl)
yonder_dependency(TBB::tbb FIND "find_dependency(TBB)" PKG_CONFIG tbb)
yonder_dependency(PkgConfig::xxhash PKG_CONFIG libxxhash
  FIND "find_dependency(PkgConfig)" "pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)")
yonder_dependency(PkgConfig::tomlplusplus PKG_CONFIG tomlplusplus
  FIND "find_dependency(PkgConfig)" "pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)")
yonder_dependency(${YONDER_NUMA_LIBRARY} LINK -lnuma)
yonder_dependency(dl LINK -ldl)
yonder_dependency(rt LINK -lrt)

# yonder_external_items(OUT TARGET…): what the targets link that is not ours.
function(yonder_external_items OUT)
  get_property(known GLOBAL PROPERTY YONDER_DEPENDENCIES)
  set(items)
  foreach(target IN LISTS ARGN)
    get_target_property(linked ${target} LINK_LIBRARIES)
    foreach(item IN LISTS linked)
      if(NOT item OR item MATCHES "^yonder::|^\\$<BUILD_INTERFACE:")
        continue()
      elseif(NOT item IN_LIST known)
        message(FATAL_ERROR "${target} links ${item}: say in cmake/YonderInstall.cmake how an installed package finds it")
      endif()
      list(APPEND items ${item})
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES items)
  set(${OUT} ${items} PARENT_SCOPE)
endfunction()

# yonder_programs(OUT FOLDER): the executables below FOLDER that go to bin/.
# Tests go elsewhere, which is how they are told apart.
function(yonder_programs OUT FOLDER)
  get_property(targets DIRECTORY ${FOLDER} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${FOLDER} PROPERTY SUBDIRECTORIES)
  set(programs)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      get_target_property(output ${target} RUNTIME_OUTPUT_DIRECTORY)
      if(output STREQUAL CMAKE_RUNTIME_OUTPUT_DIRECTORY)
        list(APPEND programs ${target})
      endif()
    endif()
  endforeach()
  foreach(subfolder IN LISTS subfolders)
    yonder_programs(more ${subfolder})
    list(APPEND programs ${more})
  endforeach()
  set(${OUT} ${programs} PARENT_SCOPE)
endfunction()

get_property(yonder_libraries GLOBAL PROPERTY YONDER_LIBRARIES)
yonder_external_items(yonder_externals ${yonder_libraries})
yonder_programs(yonder_installed_programs ${PROJECT_SOURCE_DIR}/apps)

add_library(yonder_yonder INTERFACE)
add_library(yonder::yonder ALIAS yonder_yonder)
set_target_properties(yonder_yonder PROPERTIES EXPORT_NAME yonder)
target_link_libraries(yonder_yonder INTERFACE ${yonder_libraries})

set(yonder_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/yonder)
install(TARGETS ${yonder_libraries} EXPORT yonderTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILE_SET textual DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS yonder_yonder EXPORT yonderTargets)
if(yonder_installed_programs)
  install(TARGETS ${yonder_installed_programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT yonderTargets NAMESPACE yonder:: DESTINATION ${yonder_package_dir})

# The two package files say the same thing in two languages.
set(finds)
set(modules)
set(flags)
foreach(item IN LISTS yonder_externals)
  get_property(find GLOBAL PROPERTY YONDER_FIND_${item})
  get_property(module GLOBAL PROPERTY YONDER_PKG_CONFIG_${item})
  get_property(flag GLOBAL PROPERTY YONDER_LINK_${item})
  list(APPEND finds "${find}")
  list(APPEND modules ${module})
  list(APPEND flags ${flag})
endforeach()
list(REMOVE_DUPLICATES finds)
list(REMOVE_DUPLICATES modules)
list(REMOVE_DUPLICATES flags)
list(JOIN finds "\n" YONDER_FIND_DEPENDENCIES)
list(JOIN modules " " YONDER_REQUIRES_PRIVATE)
list(JOIN flags " " YONDER_LIBS_PRIVATE)
# Folders are added bottom up; a linker wants the users of a library before it.
set(archives ${yonder_libraries})
list(REVERSE archives)
list(TRANSFORM archives PREPEND -l)
list(JOIN archives " " YONDER_LIBS)

# The .pc file finds its prefix from where it lies, so an installed tree can move.
file(RELATIVE_PATH YONDER_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/yonderConfig.cmake.in yonderConfig.cmake
  INSTALL_DESTINATION ${yonder_package_dir})
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(yonderConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/yonder.pc.in yonder.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/yonderConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/yonderConfigVersion.cmake
  DESTINATION ${yonder_package_dir})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/yonder.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
