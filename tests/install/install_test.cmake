# Run by ctest: installs the build into a fresh prefix, moves the prefix, and
# builds a stranger's project against it twice: with CMake, and with nothing but
# the compiler and pkg-config.
#   BUILD_DIR  the build to install     WORK_DIR  a folder of this test
#   COMPILER   the C++ compiler         STRANGER  the project
#   FLAGS      sanitizer flags of the build: its archives need the runtime
function(run)
  list(JOIN ARGN " " shown)
  message(STATUS "${shown}")
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
# Moved after installing: a package that only works where it was built is none.
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/first)
file(RENAME ${WORK_DIR}/first ${WORK_DIR}/prefix)
set(prefix ${WORK_DIR}/prefix)

run(${CMAKE_COMMAND} -S ${STRANGER} -B ${WORK_DIR}/cmake -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_PREFIX_PATH=${prefix} "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK_DIR}/cmake)
file(GLOB programs LIST_DIRECTORIES false ${WORK_DIR}/cmake/stranger_*)
foreach(program IN LISTS programs)
  run(${program})
endforeach()

file(GLOB pc_files ${prefix}/lib*/pkgconfig ${prefix}/lib/*/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "${pc_files}")
execute_process(COMMAND pkg-config --static --cflags --libs yonder
  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
separate_arguments(sanitize UNIX_COMMAND "${FLAGS}")
file(GLOB sources ${STRANGER}/use_*.cc)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  run(${COMPILER} -std=c++23 ${sanitize} ${source} -o ${WORK_DIR}/${name} ${flags})
  run(${WORK_DIR}/${name})
endforeach()
