! A model in Fortran trains a network while it runs: one instance a process, gradients summed in a fixed order.
! Each shard has rows of a member of an ensemble of the two-scale Lorenz model (1996). A process integrates the
! members of its shards, so the rows, and with them all bits, do not depend on the number of processes.
module lorenz
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  integer, parameter :: points = 8, fast = 8
  real(real64), parameter :: forcing = 20, coupling = 1, speed = 10, ratio = 10
  type member
    real(real64) :: x(points), y(fast * points)
  end type
contains
  subroutine begin(m, number)
    type(member), intent(out) :: m
    integer, intent(in) :: number
    integer :: i
    m%x = [(mod(7 * i + 3 * number, 11) * 0.5_real64, i = 1, points)]
    m%y = [(mod(5 * i + number, 7) * 0.05_real64, i = 1, fast * points)]
    do i = 1, 2000
      call advance(m)
    end do
  end subroutine

  function subgrid_of(m) result(tendency)
    type(member), intent(in) :: m
    real(real64) :: tendency(points)
    tendency = -coupling * speed / ratio * sum(reshape(m%y, [fast, points]), dim=1)
  end function

  subroutine advance(m) ! by a step of Euler's method
    type(member), intent(inout) :: m
    real(real64) :: dx(points), dy(fast * points), above(fast * points)
    real(real64), parameter :: dt = 5e-4_real64
    above = reshape(spread(m%x, 1, fast), [fast * points])
    dx = cshift(m%x, -1) * (cshift(m%x, 1) - cshift(m%x, -2)) - m%x + forcing + subgrid_of(m)
    dy = speed * ratio * cshift(m%y, 1) * (cshift(m%y, -1) - cshift(m%y, 2)) - speed * m%y
    m%x = m%x + dt * dx
    m%y = m%y + dt * (dy + coupling * speed / ratio * above)
  end subroutine
end module

module exchange
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
contains
  integer(c_int) function gather(mine, bytes, all, context) bind(c)
    type(c_ptr), value :: mine, all, context
    integer(c_size_t), value :: bytes
    integer(c_int8_t), pointer :: sent(:), received(:)
    integer :: ranks, code
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call c_f_pointer(mine, sent, [bytes])
    call c_f_pointer(all, received, [bytes * ranks])
    call MPI_Allgather(sent, int(bytes), MPI_BYTE, received, int(bytes), MPI_BYTE, MPI_COMM_WORLD, code)
    gather = merge(0, 1, code == MPI_SUCCESS .or. c_associated(context))
  end function
end module

program host
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use exchange
  use lorenz
  use subgrid
  implicit none
  integer, parameter :: rows = 16, steps = 400
  integer(c_int8_t), allocatable, target :: memory(:), room(:)
  type(member), allocatable :: members(:)
  real(c_float), allocatable, target :: near(:, :, :), tendency(:, :, :)
  real(c_float), target :: loss
  integer(c_int64_t), target :: total = steps
  character(kind=c_char) :: digits(65)
  type(c_ptr) :: net, fetches(2)
  integer :: rank, ranks, own, step, i, k
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  own = subgrid_train_shards / ranks ! of the shards; the number of processes divides theirs
  allocate(memory(subgrid_memory_bytes), members(own), near(3, rows, own), tendency(1, rows, own))
  call must(subgrid_open(net, "subgrid.states.safetensors" // c_null_char, c_loc(memory)))
  call must(subgrid_set(net, "total_steps" // c_null_char, c_loc(total), 8_c_size_t))
  allocate(room(prograd_shards_bytes(net, subgrid_train_sums_entry, subgrid_train_shards)))
  do i = 1, own
    call begin(members(i), rank * own + i)
  end do
  fetches = [c_loc(loss), c_null_ptr]
  do step = 1, steps
    do i = 1, own
      do k = 1, rows, points ! two snapshots
        call advance_by(members(i), 20)
        near(1, k:k + points - 1, i) = real(members(i)%x, c_float)
        near(2, k:k + points - 1, i) = real(cshift(members(i)%x, -1), c_float)
        near(3, k:k + points - 1, i) = real(cshift(members(i)%x, 1), c_float)
        tendency(1, k:k + points - 1, i) = real(subgrid_of(members(i)), c_float)
      end do
    end do
    call must(prograd_step_in_shards(net, subgrid_train_sums_entry, subgrid_train_shards, &
      [c_loc(near), c_loc(tendency)], fetches, int(rank, c_int), int(ranks, c_int), c_loc(room), &
      c_funloc(gather), c_null_ptr))
    if (rank == 0 .and. (step == 1 .or. mod(step, 100) == 0)) print "(a, i0, a, f0.4)", "step ", step, "  loss ", loss
  end do
  call subgrid_state_sha256(net, digits)
  if (rank == 0) print "(a, 64a1)", "state_sha256=", digits(1:64)
  call MPI_Finalize()
contains
  subroutine advance_by(m, count)
    type(member), intent(inout) :: m
    integer, intent(in) :: count
    integer :: n
    do n = 1, count
      call advance(m)
    end do
  end subroutine

  subroutine must(code)
    integer(c_int), intent(in) :: code
    character(kind=c_char), pointer :: why(:)
    integer :: n
    if (code == 0) return
    call c_f_pointer(subgrid_error(net), why, [256])
    do n = 1, 256
      if (why(n) == c_null_char) exit
    end do
    print "(256a1)", why(:n - 1)
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine
end program
