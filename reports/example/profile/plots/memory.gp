# Drawn by: gnuplot -d memory.gp
set encoding utf8
set terminal svg size 960,400 dynamic noenhanced font 'Helvetica,Arial,sans-serif,14' background '#ffffff' name 'memory'
set output 'memory.svg'
set border 3 linecolor rgb '#444444'
set tics nomirror out textcolor rgb '#222222'
set grid ytics linecolor rgb '#dddddd' linewidth 1
set key outside right top Left reverse samplen 2 spacing 1.2
set xlabel 'time since the step began (ms)'
set ylabel 'live bytes (MiB)'
set xrange [0.082343:15.5606]
set yrange [0:21.6168]
plot 'memory.dat' using 1:8:9 with filledcurves fillcolor rgb '#BBBBBB' fillstyle solid noborder title 'temporary', \
     'memory.dat' using 1:7:8 with filledcurves fillcolor rgb '#AA4499' fillstyle solid noborder title 'workspace', \
     'memory.dat' using 1:6:7 with filledcurves fillcolor rgb '#E69F00' fillstyle solid noborder title 'activations', \
     'memory.dat' using 1:5:6 with filledcurves fillcolor rgb '#DDCC77' fillstyle solid noborder title 'input', \
     'memory.dat' using 1:4:5 with filledcurves fillcolor rgb '#117733' fillstyle solid noborder title 'gradients', \
     'memory.dat' using 1:3:4 with filledcurves fillcolor rgb '#88CCEE' fillstyle solid noborder title 'ema', \
     'memory.dat' using 1:2:3 with filledcurves fillcolor rgb '#6699CC' fillstyle solid noborder title 'optimizer', \
     'memory.dat' using 1:(0):2 with filledcurves fillcolor rgb '#332288' fillstyle solid noborder title 'weights', \
     20.0155 with lines linewidth 1.5 dashtype 2 linecolor rgb '#D55E00' title 'peak 20.02 MiB'
