"""What every package uses: exceptions, launch geometry, timing, progress, element types."""
